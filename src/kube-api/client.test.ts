import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakeApiServer } from "../../test/stand-in/api-server/fake-api-server.ts";
import { selfSigned } from "../../test/stand-in/api-server/self-signed.ts";
import { KubeApi, type KubeObject, type Resource } from "./client.ts";

let directory: string;
let api: FakeApiServer;
let client: KubeApi;
const { signal } = new AbortController();
const WIDGETS: Resource = { group: "example.io", version: "v1", plural: "widgets" };
const PODS: Resource = { group: "", version: "v1", plural: "pods", namespace: "tenant" };

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-api-"));
  api = await FakeApiServer.start();
  await writeFile(join(directory, "token"), "first\n");
  await writeFile(join(directory, "ca.crt"), api.ca);
  client = new KubeApi({ url: api.url, serviceAccountDirectory: directory, deadlineMs: 30_000 });
});
afterEach(async () => {
  client.close();
  await api.close();
  await rm(directory, { recursive: true });
});

const widget = (name: string, spec: object = { pool: "a" }) => ({
  ...{ apiVersion: "example.io/v1", kind: "Widget", metadata: { name }, spec },
});
const create = (name: string, spec?: object) => client.create(WIDGETS, widget(name, spec), signal);
const problemOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => "none",
    ({ problem }: { readonly problem: unknown }) => problem,
  );

describe("objects of the API", () => {
  it("are created, read, replaced and deleted, in a namespace or in the cluster", async () => {
    const made = await create("s-1");
    expect(await client.get(WIDGETS, "s-1", signal)).toEqual(made);
    const changed = await client.update(WIDGETS, { ...made, spec: { pool: "b" } }, signal);
    expect(changed).toMatchObject({ spec: { pool: "b" }, metadata: { uid: made.metadata.uid } });
    const pod = { apiVersion: "v1", kind: "Pod", metadata: { name: "vm" } };
    await client.create(PODS, pod, signal);
    expect(await client.get(PODS, "vm", signal)).toMatchObject(pod);
    await client.delete(WIDGETS, "s-1", {}, signal);
    expect(await problemOf(client.get(WIDGETS, "s-1", signal))).toBe("not-found");
  });

  it("are not replaced by one who read an older version, nor created twice", async () => {
    const made = await create("s-1");
    await client.update(WIDGETS, { ...made, spec: { pool: "b" } }, signal);
    expect(await problemOf(client.update(WIDGETS, { ...made, spec: { pool: "c" } }, signal))).toBe(
      "conflict",
    );
    expect(await problemOf(create("s-1"))).toBe("exists");
    const unversioned: KubeObject = { ...made, metadata: { name: "s-1" } };
    expect(await problemOf(client.update(WIDGETS, unversioned, signal))).toBe("invalid");
  });

  it("are deleted only where they are what the preconditions name", async () => {
    const { metadata } = await create("s-1");
    await client.delete(WIDGETS, "s-1", {}, signal);
    const other = await create("s-1");
    const { uid = "", resourceVersion = "" } = metadata;
    expect(await problemOf(client.delete(WIDGETS, "s-1", { uid }, signal))).toBe("conflict");
    expect(await problemOf(client.delete(WIDGETS, "s-1", { resourceVersion }, signal))).toBe("conflict");
    expect(await problemOf(client.delete(WIDGETS, "s-1", { uid: other.metadata.uid ?? "" }, signal))).toBe(
      "none",
    );
  });

  it("are read without what is beside the metadata where only that is wanted", async () => {
    const only = { ...WIDGETS, isMetadataOnly: true };
    expect((await client.list(only, {}, signal)).objects).toEqual([]);
    await create("s-1");
    const { objects } = await client.list(only, {}, signal);
    expect(objects).toMatchObject([{ kind: "PartialObjectMetadata", metadata: { name: "s-1" } }]);
    expect(await client.get(only, "s-1", signal)).not.toHaveProperty("spec");
  });

  it("are changed by field, and by server-side apply, which keeps what others manage", async () => {
    await create("s-1", { pool: "a", node: "n" });
    const merged = await client.patch(
      WIDGETS,
      "s-1",
      { type: "merge", body: { spec: { node: null, generation: 2 } } },
      signal,
    );
    expect(merged["spec"]).toEqual({ pool: "a", generation: 2 });
    const status = { ...WIDGETS, subresource: "status" };
    const apply = (fieldManager: string, ready: boolean, force = false) => {
      const body = { ...widget("s-1", {}), spec: undefined, status: { ready } };
      return client.patch(WIDGETS, "s-1", { type: "apply", fieldManager, force, body }, signal);
    };
    expect(await apply("ours", true)).toMatchObject({ spec: { pool: "a" }, status: { ready: true } });
    expect(await problemOf(apply("theirs", false))).toBe("conflict");
    expect(await apply("theirs", false, true)).toMatchObject({ status: { ready: false } });
    const onlyStatus = { type: "merge", body: { spec: { pool: "x" }, status: { ready: true } } } as const;
    expect(await client.patch(status, "s-1", onlyStatus, signal)).toMatchObject({
      ...{ spec: { pool: "a" }, status: { ready: true } },
    });
  });
});

describe("a list", () => {
  const fill = (count: number) => {
    for (let index = 0; index < count; index++)
      api.store.create("widgets", widget(`s-${index}`, { nodeName: `node-${index % 2}` }));
  };

  it("is read in pages, as of one moment, and by fields", async () => {
    fill(1_200);
    const { objects, resourceVersion } = await client.list(WIDGETS, {}, signal);
    expect(objects).toHaveLength(1_200);
    expect(resourceVersion).toBe(String(api.store.version));
    expect(api.answers).toEqual(Array(5).fill("GET 200"));
    const ours = await client.list(WIDGETS, { fieldSelector: "spec.nodeName=node-1" }, signal);
    expect(ours.objects).toHaveLength(600);
    const names = await client.list(WIDGETS, {}, signal, ({ metadata: { name } }) => ({
      metadata: { name },
    }));
    expect(names.objects.at(-1)).toEqual({ metadata: { name: "s-1199" } });
  });

  it("starts again when its continue token expires on the way, and not for ever", async () => {
    fill(600);
    api.illnesses.push(undefined, { kind: "status", status: 410 });
    const list = await client.list(WIDGETS, {}, signal);
    expect(list.objects).toHaveLength(600);
    expect(api.answers).toEqual(["GET 200", "GET 410", "GET 200", "GET 200", "GET 200"]);
    api.illnesses.push(...Array.from({ length: 3 }, () => ({ kind: "status", status: 410 }) as const));
    expect(await problemOf(client.list(WIDGETS, {}, signal))).toBe("expired");
  });
});

describe("the API server", () => {
  it("is asked with the token of that moment", async () => {
    await create("s-1");
    api.tokens.delete("first");
    api.tokens.add("second");
    await expect(create("s-2")).rejects.toMatchObject({
      ...{ problem: "unauthorized", code: "kube-api-unavailable", isRetryable: true },
      what: "the Kubernetes API server answered 401: Unauthorized",
    });
    await writeFile(join(directory, "token.new"), "second");
    await rename(join(directory, "token.new"), join(directory, "token"));
    await create("s-2");
  });

  it("is trusted by the authority of that moment, and by no other", async () => {
    await writeFile(join(directory, "ca.crt"), selfSigned().cert);
    await expect(create("s-1")).rejects.toThrow(/self.signed certificate/);
    expect(api.answers).toEqual([]);
    await writeFile(join(directory, "ca.crt"), api.ca);
    await create("s-1");
  });

  it("refuses what the ServiceAccount may not do, with what to do about it", async () => {
    api.verbs.delete("create");
    await expect(create("s-1")).rejects.toMatchObject({
      ...{ problem: "forbidden", code: "kube-api-refused", isRetryable: false },
      message: expect.stringMatching(/403: widgets.* cannot create .*grant the ServiceAccount this right$/),
    });
  });

  it("is retryable where it is busy, at a time that it names, of a minute at most", async () => {
    api.illnesses.push(
      { kind: "status", status: 429, retryAfter: "7" },
      { kind: "status", status: 503, retryAfter: "86400" },
      { kind: "status", status: 500 },
      { kind: "status", status: 429, retryAfter: "Wed, 21 Oct 2026 07:28:00 GMT" },
    );
    const delays = [];
    for (let request = 0; request < 4; request++)
      delays.push(await create("s-1").catch(({ problem, retryAfterMs }) => [problem, retryAfterMs]));
    expect(delays).toEqual([7_000, 60_000, 0, 0].map((ms) => ["unavailable", ms]));
  });

  it("is read again on another connection where it ended an idle one, and nothing is written twice", async () => {
    const made = await create("s-1");
    api.illnesses.push({ kind: "closed" });
    expect(await client.get(WIDGETS, "s-1", signal)).toEqual(made);
    api.illnesses.push({ kind: "closed" });
    expect(await problemOf(create("s-2"))).toBe("unreachable");
    api.illnesses.push({ kind: "closed" });
    expect(await problemOf(client.get(WIDGETS, "s-1", signal)), "on a new connection").toBe("unreachable");
  });

  it("is unreachable where it is silent, breaks off, answers without end, or is a proxy", async () => {
    const impatient = new KubeApi({ url: api.url, serviceAccountDirectory: directory, deadlineMs: 500 });
    api.illnesses.push({ kind: "silent" });
    await expect(impatient.get(WIDGETS, "s-1", signal)).rejects.toMatchObject({
      ...{ problem: "unreachable", message: expect.stringContaining("not within the deadline") },
    });
    impatient.close();
    api.illnesses.length = 0;
    for (const kind of ["half", "endless", "html"] as const) {
      api.illnesses.push({ kind });
      expect(await problemOf(create(kind)), kind).toBe("unreachable");
    }
    const away = new KubeApi({ url: "https://127.0.0.1:1", serviceAccountDirectory: directory });
    await expect(away.get(WIDGETS, "s-1", signal)).rejects.toThrow("ECONNREFUSED");
    await rm(join(directory, "token"));
    await expect(create("s-3")).rejects.toThrow("ENOENT");
  });

  it("is not waited for after the signal fires", async () => {
    api.illnesses.push({ kind: "silent" });
    const stop = new AbortController();
    const asked = client.get(WIDGETS, "s-1", stop.signal);
    await api.hasAnswered(1);
    stop.abort(new Error("stopping"));
    await expect(asked).rejects.toThrow("stopping");
  });
});
