import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { EventsApi } from "../../test/stand-in/api-server/events-api.ts";
import { selfSigned } from "../../test/stand-in/api-server/self-signed.ts";
import { eventObject, microTime } from "../observe/events/event.ts";
import { ApiServer } from "./client.ts";

let directory: string;
let api: EventsApi;
let client: ApiServer;
const signal = new AbortController().signal;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-api-"));
  api = await EventsApi.start();
  await writeFile(join(directory, "token"), "first\n");
  await writeFile(join(directory, "ca.crt"), api.ca);
  client = new ApiServer({ url: api.url, serviceAccountDirectory: directory, deadlineMs: 30_000 });
});
afterEach(async () => {
  client.close();
  await api.close();
  await rm(directory, { recursive: true });
});

const event = (name: string, namespace = "tenant") =>
  eventObject(
    {
      regarding: { kind: "Pod", namespace, name: "vm", uid: "u" },
      ...{ type: "Warning", reason: "InterfaceFailed", action: "Attach", note: "no bridge" },
    },
    { instance: "daemon" },
    { name, at: 1_700_000_000_000 },
  );
const series = (count: number) => ({ series: { count, lastObservedTime: microTime(1_700_000_001_000) } });

describe("the API server", () => {
  it("makes an event and takes its series", async () => {
    expect(await client.create("tenant", event("vm.1"), signal)).toEqual({ kind: "done" });
    expect(await client.patch("tenant", "vm.1", series(4), signal)).toEqual({ kind: "done" });
    expect(api.events.get("tenant/vm.1")?.object).toMatchObject({ note: "no bridge", series: { count: 4 } });
    expect(api.answers).toEqual(["POST 201", "PATCH 200"]);
  });

  it("is asked with the token that is there at that moment", async () => {
    await client.create("tenant", event("vm.1"), signal);
    api.tokens.delete("first");
    api.tokens.add("second");
    expect(await client.create("tenant", event("vm.2"), signal)).toMatchObject({
      kind: "later",
      reason: "the API server answered 401: Unauthorized",
    });
    await writeFile(join(directory, "token.new"), "second");
    await rename(join(directory, "token.new"), join(directory, "token"));
    expect(await client.create("tenant", event("vm.2"), signal)).toEqual({ kind: "done" });
  });

  it("is known by the authority that is there at that moment, and by no other", async () => {
    await writeFile(join(directory, "ca.crt"), selfSigned().cert);
    expect(await client.create("tenant", event("vm.1"), signal)).toMatchObject({
      kind: "later",
      reason: expect.stringMatching(/self.signed certificate/),
    });
    expect(api.answers).toEqual([]);
    await writeFile(join(directory, "ca.crt"), api.ca);
    expect(await client.create("tenant", event("vm.1"), signal)).toEqual({ kind: "done" });
  });

  it("refuses for good what the ServiceAccount may not do, a namespace that is gone, an event that is wrong", async () => {
    api.verbs.delete("create");
    expect(await client.create("tenant", event("vm.1"), signal)).toMatchObject({
      kind: "refused",
      reason: expect.stringContaining(
        '403: events.events.k8s.io is forbidden: User cannot create resource "events"',
      ),
    });
    api.verbs.add("create");
    expect(await client.create("gone", event("vm.1", "gone"), signal)).toEqual({
      kind: "refused",
      reason: "there is no namespace gone",
    });
    expect(
      await client.create("tenant", { ...event("vm.1"), note: "x".repeat(1_025) }, signal),
    ).toMatchObject({
      kind: "refused",
      reason: expect.stringContaining("422: note can have at most 1024 bytes"),
    });
  });

  it("tells an event that is there already from one that is not any more", async () => {
    await client.create("tenant", event("vm.1"), signal);
    expect(await client.create("tenant", event("vm.1"), signal)).toEqual({ kind: "exists" });
    expect(await client.patch("tenant", "vm.2", series(2), signal)).toEqual({ kind: "missing" });
  });

  it("may take later what it does not take now, when it says so at most", async () => {
    api.illnesses.push(
      { kind: "status", status: 429, retryAfter: "7" },
      { kind: "status", status: 503, retryAfter: "86400" },
      { kind: "status", status: 500 },
      { kind: "status", status: 429, retryAfter: "Wed, 21 Oct 2026 07:28:00 GMT" },
    );
    const ask = () => client.create("tenant", event("vm.1"), signal);
    expect(await ask()).toMatchObject({ kind: "later", afterMs: 7_000 });
    expect(await ask()).toMatchObject({ kind: "later", afterMs: 60_000 });
    expect(await ask()).toEqual({ kind: "later", reason: "the API server answered 500: it is not well" });
    expect(await ask()).not.toHaveProperty("afterMs");
  });

  it("may be away, silent, or break off, and is asked again on a new connection", async () => {
    api.illnesses.push({ kind: "half" }, { kind: "endless" });
    expect(await client.create("tenant", event("vm.1"), signal)).toMatchObject({ kind: "later" });
    expect(await client.create("tenant", event("vm.2"), signal)).toMatchObject({
      kind: "later",
      reason: expect.stringContaining("the answer is too long"),
    });
    const impatient = new ApiServer({ url: api.url, serviceAccountDirectory: directory, deadlineMs: 500 });
    api.illnesses.push({ kind: "silent" });
    expect(await impatient.create("tenant", event("vm.3"), signal)).toMatchObject({
      kind: "later",
      reason: expect.stringContaining("no answer in time"),
    });
    impatient.close();
    // It may not even have come so far.
    api.illnesses.length = 0;
    expect(await client.create("tenant", event("vm.4"), signal)).toEqual({ kind: "done" });
    const away = new ApiServer({ url: "https://127.0.0.1:1", serviceAccountDirectory: directory });
    expect(await away.create("tenant", event("vm.5"), signal)).toMatchObject({
      kind: "later",
      reason: expect.stringContaining("ECONNREFUSED"),
    });
    await rm(join(directory, "token"));
    expect(await client.create("tenant", event("vm.6"), signal)).toMatchObject({
      kind: "later",
      reason: expect.stringContaining("ENOENT"),
    });
  });

  it("is not waited for when the daemon stops", async () => {
    api.illnesses.push({ kind: "silent" });
    const stop = new AbortController();
    const asked = client.create("tenant", event("vm.1"), stop.signal);
    await api.hasAnswered(1);
    stop.abort(new Error("stopping"));
    await expect(asked).rejects.toThrow("stopping");
  });
});
