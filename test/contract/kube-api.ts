import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiFailure } from "../../src/kube-api/api-failure.ts";
import type { KubeApi, KubeObject, Resource, Selection } from "../../src/kube-api/client.ts";

/** An API server as the shipped code sees it. */
export interface KubeApiUnderTest {
  readonly api: Pick<KubeApi, "get" | "list" | "create" | "update" | "patch" | "delete" | "openWatch">;
  /** Waits for a promise, and lets simulated time pass meanwhile. */
  readonly run: <Value>(promise: Promise<Value>) => Promise<Value>;
  /** Forgets what happened so far, as etcd does every five minutes. */
  readonly forget: () => Promise<void>;
  readonly close: () => Promise<void>;
}

const GROUP = "contract.kube-vhostuser.io";
/** Objects that only the contract uses. */
export const EXAMPLES: Resource = { group: GROUP, version: "v1", plural: "examples" };
const DEFAULT: Resource = { ...EXAMPLES, namespace: "default" };
const STATUS: Resource = { ...DEFAULT, subresource: "status" };
const NEVER = new AbortController().signal;
const LABEL = "contract.kube-vhostuser.io/set";

/** The definition of the objects that the contract uses, for a server that has to know them. */
export const EXAMPLE_DEFINITION = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: `examples.${GROUP}` },
  spec: {
    group: GROUP,
    scope: "Namespaced",
    names: { plural: "examples", singular: "example", kind: "Example" },
    versions: [
      {
        ...{ name: "v1", served: true, storage: true, subresources: { status: {} } },
        schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
      },
    ],
  },
};

/** What every API server does that the shipped code talks to: Kubernetes' own, and the stand-ins for it. */
export function describeKubeApi(name: string, start: () => Promise<KubeApiUnderTest>): void {
  describe(`the API of ${name}`, () => {
    let under: KubeApiUnderTest;
    let names = 0;
    beforeAll(async () => {
      under = await start();
    });
    afterAll(() => under?.close());

    const fresh = () => {
      names += 1;
      return `contract-${process.pid}-${names}`;
    };
    const exampleOf = (example: string, labels: object = {}, spec: object = { owner: "one" }) => ({
      apiVersion: `${GROUP}/v1`,
      kind: "Example",
      metadata: { name: example, labels },
      spec,
    });
    const { run, api } = {
      run: <Value>(promise: Promise<Value>) => under.run(promise),
      api: () => under.api,
    };
    const create = (example: string, labels?: object) =>
      run(api().create(DEFAULT, exampleOf(example, labels), NEVER));
    const problemOf = async (promise: Promise<unknown>) => {
      const error = await run(
        promise.then(
          () => undefined,
          (thrown: unknown) => thrown,
        ),
      );
      return error instanceof ApiFailure ? error.problem : error;
    };
    const versionOf = ({ metadata }: KubeObject) => metadata.resourceVersion ?? "";
    const held = (example: KubeObject, owner: string): KubeObject => ({
      ...example,
      spec: { ...(example["spec"] as object), owner },
    });
    const listed = async (selection: Selection, resource = DEFAULT) => {
      const { objects } = await run(api().list(resource, selection, NEVER));
      return objects.map(({ metadata }) => metadata.name).sort();
    };

    it("gives a new object a uid and a version, and refuses a second one of its name", async () => {
      const example = fresh();
      const made = await create(example);
      expect(made.metadata).toMatchObject({ uid: expect.any(String), resourceVersion: expect.any(String) });
      expect(await run(api().get(DEFAULT, example, NEVER))).toMatchObject({ metadata: made.metadata });
      expect(await problemOf(api().create(DEFAULT, exampleOf(example), NEVER))).toBe("exists");
    });

    it("lets one of several creations at once succeed", async () => {
      const example = fresh();
      const all = ["one", "two", "three"].map((owner) =>
        api().create(DEFAULT, exampleOf(example, {}, { owner }), NEVER),
      );
      const done = await run(Promise.allSettled(all));
      expect(done.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    });

    it("stores nothing in a dry run", async () => {
      const example = fresh();
      await run(api().create(DEFAULT, exampleOf(example), NEVER, { isDryRun: true }));
      expect(await problemOf(api().get(DEFAULT, example, NEVER))).toBe("not-found");
    });

    it("refuses to read, change or delete what is not there", async () => {
      const example = fresh();
      const absent = { ...exampleOf(example), metadata: { name: example, resourceVersion: "1" } };
      expect(await problemOf(api().get(DEFAULT, example, NEVER))).toBe("not-found");
      expect(await problemOf(api().update(DEFAULT, absent, NEVER))).toBe("not-found");
      const patch = { type: "merge", body: { spec: { owner: "two" } } } as const;
      expect(await problemOf(api().patch(DEFAULT, example, patch, NEVER))).toBe("not-found");
      expect(await problemOf(api().delete(DEFAULT, example, {}, NEVER))).toBe("not-found");
    });

    it("updates an object whose version is the current one, and no other", async () => {
      const made = await create(fresh());
      const changed = await run(api().update(DEFAULT, held(made, "two"), NEVER));
      expect(versionOf(changed)).not.toBe(versionOf(made));
      expect(changed.metadata.uid).toBe(made.metadata.uid);
      expect(await problemOf(api().update(DEFAULT, held(made, "three"), NEVER))).toBe("conflict");
      const { resourceVersion: _, ...metadata } = made.metadata;
      expect(await problemOf(api().update(DEFAULT, { ...made, metadata }, NEVER))).toBe("invalid");
    });

    it("lists nothing, whole or as metadata", async () => {
      for (const isMetadataOnly of [false, true])
        expect(await listed({ labelSelector: `${LABEL}=none` }, { ...DEFAULT, isMetadataOnly })).toEqual([]);
    });

    it("writes the status by its subresource alone, and nothing else with it", async () => {
      const status = { used: 1 };
      const made = await run(api().create(DEFAULT, { ...exampleOf(fresh()), status }, NEVER));
      expect(made["status"]).toBeUndefined();
      const changed = await run(api().update(STATUS, { ...held(made, "two"), status }, NEVER));
      expect(changed).toMatchObject({ spec: { owner: "one" }, status });
      expect(versionOf(changed)).not.toBe(versionOf(made));
      expect(await problemOf(api().update(STATUS, { ...made, status: { used: 2 } }, NEVER))).toBe("conflict");
      const body = { spec: { owner: "two" }, status: { free: 3 } };
      const merged = await run(api().patch(STATUS, made.metadata.name, { type: "merge", body }, NEVER));
      expect(merged).toMatchObject({ spec: { owner: "one" }, status: { used: 1, free: 3 } });
      const other = await run(api().update(DEFAULT, { ...held(merged, "two"), status: {} }, NEVER));
      expect(other).toMatchObject({ spec: { owner: "two" }, status: { used: 1, free: 3 } });
    });

    it("lets one of several updates of the same version succeed", async () => {
      const made = await create(fresh());
      const all = ["two", "three", "four"].map((holder) => api().update(DEFAULT, held(made, holder), NEVER));
      const done = await run(Promise.allSettled(all));
      expect(done.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    });

    it("makes no version for an update that changes nothing", async () => {
      const made = await create(fresh());
      expect(versionOf(await run(api().update(DEFAULT, made, NEVER)))).toBe(versionOf(made));
    });

    it("merges a patch, removes what is null, and refuses one of an older version", async () => {
      const example = fresh();
      const made = await create(example, { [LABEL]: "patched" });
      const body = { metadata: { labels: { [LABEL]: null } }, spec: { count: 7 } };
      const changed = await run(api().patch(DEFAULT, example, { type: "merge", body }, NEVER));
      expect(changed["spec"]).toMatchObject({ owner: "one", count: 7 });
      expect(changed.metadata["labels"] ?? {}).toEqual({});
      const late = { metadata: { resourceVersion: versionOf(made) }, spec: { count: 8 } };
      expect(await problemOf(api().patch(DEFAULT, example, { type: "merge", body: late }, NEVER))).toBe(
        "conflict",
      );
    });

    it("deletes an object that the preconditions name, and no other", async () => {
      const example = fresh();
      const made = await create(example);
      const uid = made.metadata.uid ?? "";
      const changed = await run(api().update(DEFAULT, held(made, "two"), NEVER));
      const remove = (preconditions: { uid?: string; resourceVersion?: string }) =>
        problemOf(api().delete(DEFAULT, example, preconditions, NEVER));
      expect(await remove({ uid: "00000000-0000-4000-8000-000000000000" })).toBe("conflict");
      expect(await remove({ uid, resourceVersion: versionOf(made) })).toBe("conflict");
      expect(await remove({ uid, resourceVersion: versionOf(changed) })).toBeUndefined();
      expect(await remove({ uid })).toBe("not-found");
      const again = await create(example);
      expect(again.metadata.uid).not.toBe(uid);
      expect(await remove({ uid })).toBe("conflict");
    });

    it("marks an object with finalizers as deleted, and removes it with the last of them", async () => {
      const example = fresh();
      const made = await create(example);
      const finalizers = ["contract.kube-vhostuser.io/kept"];
      await run(api().update(DEFAULT, { ...made, metadata: { ...made.metadata, finalizers } }, NEVER));
      await run(api().delete(DEFAULT, example, {}, NEVER));
      const marked = await run(api().get(DEFAULT, example, NEVER));
      expect(marked.metadata["deletionTimestamp"]).toEqual(expect.any(String));
      const freed = { ...marked, metadata: { ...marked.metadata, finalizers: [] } };
      await run(api().update(DEFAULT, freed, NEVER));
      expect(await problemOf(api().get(DEFAULT, example, NEVER))).toBe("not-found");
    });

    it("lists by label, by field, in a namespace and in all", async () => {
      const [one, two] = [fresh(), fresh()];
      await create(one, { [LABEL]: one });
      await create(two, { [LABEL]: two });
      expect(await listed({ labelSelector: `${LABEL}=${one}` })).toEqual([one]);
      expect(await listed({ fieldSelector: `metadata.name=${two}` })).toEqual([two]);
      expect(await listed({ labelSelector: `${LABEL}=${one}` }, EXAMPLES)).toEqual([one]);
      expect(await listed({ labelSelector: `${LABEL}=another` })).toEqual([]);
    });

    it("lists more objects than a page has", async () => {
      const set = fresh();
      const all = Array.from({ length: 520 }, () => fresh());
      await run(
        Promise.all(all.map((example) => api().create(DEFAULT, exampleOf(example, { [LABEL]: set }), NEVER))),
      );
      expect(await listed({ labelSelector: `${LABEL}=${set}` })).toEqual(all.toSorted());
    });

    it("reads what was written before, at once", async () => {
      const set = fresh();
      for (let count = 1; count <= 20; count++) {
        await create(fresh(), { [LABEL]: set });
        expect(await listed({ labelSelector: `${LABEL}=${set}` })).toHaveLength(count);
      }
    });

    it("tells a watch of every change after a version, in their order", async () => {
      const set = fresh();
      const selection = { labelSelector: `${LABEL}=${set}` };
      const { resourceVersion } = await run(api().list(DEFAULT, selection, NEVER));
      const early = await create(fresh(), { [LABEL]: set });
      const watch = await openEvents(under, DEFAULT, { ...selection, resourceVersion });
      const late = await create(fresh(), { [LABEL]: set });
      const changed = await run(api().update(DEFAULT, held(early, "two"), NEVER));
      await run(api().delete(DEFAULT, late.metadata.name, {}, NEVER));
      const events = [await watch.next(), await watch.next(), await watch.next(), await watch.next()];
      expect(events.map(({ type, object }) => [type, object.metadata.name])).toEqual([
        ["ADDED", early.metadata.name],
        ["ADDED", late.metadata.name],
        ["MODIFIED", early.metadata.name],
        ["DELETED", late.metadata.name],
      ]);
      expect(events.slice(0, 3).map(({ object }) => versionOf(object))).toEqual(
        [early, late, changed].map(versionOf),
      );
      // The version of the deletion, so that a watch that goes on from here does not see it again.
      expect(Number(versionOf(events[3]?.object as KubeObject))).toBeGreaterThan(Number(versionOf(changed)));
      watch.close();
    });

    it("tells a watch with a selector of an object that comes under it, and that leaves it", async () => {
      const set = fresh();
      const selection = { labelSelector: `${LABEL}=${set}` };
      const { resourceVersion } = await run(api().list(DEFAULT, selection, NEVER));
      const watch = await openEvents(under, DEFAULT, { ...selection, resourceVersion });
      const example = fresh();
      await create(example);
      for (const label of [set, null]) {
        const body = { metadata: { labels: { [LABEL]: label } } };
        await run(api().patch(DEFAULT, example, { type: "merge", body }, NEVER));
      }
      const events = [await watch.next(), await watch.next()];
      expect(events.map(({ type, object }) => [type, object.metadata.name])).toEqual([
        ["ADDED", example],
        ["DELETED", example],
      ]);
      watch.close();
    });

    it("reads only the metadata where no more is wanted", async () => {
      const example = fresh();
      const only = { ...DEFAULT, isMetadataOnly: true };
      const selection = { fieldSelector: `metadata.name=${example}` };
      const { resourceVersion } = await run(api().list(only, selection, NEVER));
      const watch = await openEvents(under, only, { ...selection, resourceVersion });
      const { uid } = (await create(example)).metadata;
      const { objects } = await run(api().list(only, selection, NEVER));
      const read = [await run(api().get(only, example, NEVER)), ...objects, (await watch.next()).object];
      expect(read).toHaveLength(3);
      for (const object of read) {
        expect(object).toMatchObject({ metadata: { name: example, uid } });
        expect(object["spec"]).toBeUndefined();
      }
      watch.close();
    });

    it("ends a watch from a version that is forgotten with 410", async () => {
      await create(fresh());
      await under.forget();
      const watch = await openEvents(under, DEFAULT, { resourceVersion: "1" });
      expect(await watch.next()).toMatchObject({ type: "ERROR", object: { code: 410 } });
      watch.close();
    });
  });
}

interface Event {
  readonly type: string;
  readonly object: KubeObject;
}

async function openEvents({ api, run }: KubeApiUnderTest, resource: Resource, query: Record<string, string>) {
  const end = new AbortController();
  const response = await run(api.openWatch(resource, { ...query, timeoutSeconds: "60" }, end.signal));
  const chunks = (response as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
  let text = "";
  const next = async (): Promise<Event> => {
    while (!text.includes("\n")) {
      const { value, done } = await run(chunks.next());
      if (done === true) throw new Error("the watch has ended");
      text += (value as Buffer).toString("utf8");
    }
    const [line = "", ...rest] = text.split("\n");
    text = rest.join("\n");
    const event = JSON.parse(line) as Event;
    return event.type === "BOOKMARK" ? await next() : event;
  };
  return { next, close: () => response.destroy() };
}
