import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as eventLoop } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakeApiServer } from "../../test/stand-in/api-server/fake-api-server.ts";
import { ManualClock } from "../../test/stand-in/manual-clock.ts";
import type { ApiFailure } from "./api-failure.ts";
import { KubeApi, type Selection } from "./client.ts";
import { watchResource } from "./watch.ts";

const WIDGETS = { group: "example.io", version: "v1", plural: "widgets" };

let directory: string;
let api: FakeApiServer;
let client: KubeApi;
let clock: ManualClock;
let stop: AbortController;
let failures: ApiFailure[];
/** What the watch yielded. */
let seen: string[];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-watch-"));
  api = await FakeApiServer.start();
  await writeFile(join(directory, "token"), "first");
  await writeFile(join(directory, "ca.crt"), api.ca);
  client = new KubeApi({ url: api.url, serviceAccountDirectory: directory, deadlineMs: 60_000 });
  clock = new ManualClock();
  stop = new AbortController();
  [failures, seen] = [[], []];
});
afterEach(async () => {
  stop.abort();
  client.close();
  await api.close();
  await rm(directory, { recursive: true });
});

const put = (name: string, spec: object = {}) => api.store.create("widgets", { metadata: { name }, spec });

/** Reads the watch to its end. */
async function follow(selection: Selection = {}): Promise<void> {
  const options = { api: client, resource: WIDGETS, selection, clock, random: () => 0.5 };
  const onFailure = (failure: ApiFailure) => void failures.push(failure);
  for await (const change of watchResource({ ...options, onFailure }, stop.signal)) {
    if (change.kind === "all")
      seen.push(`all: ${change.objects.map(({ metadata }) => metadata.name).join()}`);
    else seen.push(`${change.kind} ${change.object.metadata.name}`);
  }
}

/** The server takes as long as it takes; the clock moves only where the watch waits for it. */
async function until(isSo: () => boolean, stepMs = 0): Promise<void> {
  const end = AbortSignal.timeout(60_000);
  while (!isSo()) {
    end.throwIfAborted();
    await (stepMs === 0 ? eventLoop() : clock.advance(stepMs));
  }
}
const watches = (count: number, stepMs = 0) => until(() => api.watches.length === count, stepMs);
const hasSeen = (...expected: string[]) =>
  until(() => seen.length >= expected.length, 100).then(() => expect(seen).toEqual(expected));

describe("a watch", () => {
  it("lists, then yields each change, until it is stopped", async () => {
    put("a");
    const over = follow();
    await watches(1);
    put("b");
    api.store.merge("widgets", "a", { spec: { pool: "x" } });
    api.store.remove("widgets", "a", {});
    await hasSeen("all: a", "set b", "set a", "removed a");
    expect(Object.fromEntries(api.watches[0] ?? [])).toEqual({
      ...{ watch: "true", resourceVersion: "101", allowWatchBookmarks: "true", timeoutSeconds: "450" },
    });
    stop.abort(new Error("stopping"));
    await expect(over).rejects.toThrow("stopping");
    await watches(0);
  });

  it("selects by fields", async () => {
    void follow({ fieldSelector: "spec.nodeName=ours" }).catch(() => undefined);
    await watches(1);
    put("theirs", { nodeName: "theirs" });
    put("ours", { nodeName: "ours" });
    await hasSeen("all: ", "set ours");
  });

  it("misses nothing when its connection ends in an orderly way or is cut", async () => {
    void follow().catch(() => undefined);
    for (const [index, how] of (["orderly", "cut"] as const).entries()) {
      await watches(1, 100);
      api.endWatches(how);
      await watches(0);
      put(`while-away-${index}`);
    }
    await hasSeen("all: ", "set while-away-0", "set while-away-1");
    expect(api.answers.filter((answer) => answer === "GET 200")).toHaveLength(1);
  });

  it("goes on from a bookmark, though all changes since its last event are forgotten", async () => {
    put("a");
    void follow().catch(() => undefined);
    await watches(1);
    api.store.create("tenant/pods", { metadata: { name: "of-another-kind" } });
    api.sendBookmarks();
    api.store.compact();
    api.endWatches();
    await watches(0);
    await watches(1, 100);
    put("b");
    await hasSeen("all: a", "set b");
  });

  it("lists again when its resourceVersion has expired, also where the answer itself says so", async () => {
    put("a");
    void follow().catch(() => undefined);
    await watches(1);
    api.endWatches();
    await watches(0);
    put("b");
    api.store.remove("widgets", "a", {});
    api.store.compact();
    await hasSeen("all: a", "all: b");
    await watches(1, 100);
    api.illnesses.push({ kind: "status", status: 410 });
    api.endWatches();
    await hasSeen("all: a", "all: b", "all: b");
    expect(failures).toEqual([]);
  });

  it("reads lines and characters that come in pieces", async () => {
    api.chunkBytes = 3;
    void follow().catch(() => undefined);
    await watches(1);
    put("ä-💥");
    put("b");
    await hasSeen("all: ", "set ä-💥", "set b");
  });

  it("reports a server that fails, waits longer each time and as long as it asks, and goes on", async () => {
    api.verbs.delete("watch");
    void follow().catch(() => undefined);
    await until(() => failures.length === 1);
    expect(failures[0]).toMatchObject({ problem: "forbidden" });
    const pauses: number[] = [];
    for (let failure = 1; failure < 8; failure++) {
      await until(() => clock.pending.length > 0 && failures.length === failure);
      const [pauseMs = 0] = clock.pending;
      pauses.push(pauseMs);
      await clock.advance(pauseMs);
      await until(() => failures.length === failure + 1);
    }
    expect(pauses).toEqual([750, 1_500, 3_000, 6_000, 12_000, 22_500, 22_500]);
    api.illnesses.push({ kind: "status", status: 429, retryAfter: "60" });
    await clock.advance(22_500);
    await until(() => failures.length === 9 && clock.pending.length > 0);
    expect(clock.pending).toEqual([60_000]);
    api.verbs.add("watch");
    await watches(1, 10_000);
    put("a");
    await hasSeen("all: ", "set a");
  });

  it.each([
    ["is no JSON", "hello\n"],
    ["is no event", '{"type":"ADDED","object":{}}\n'],
    ["is an error of the server", '{"type":"ERROR","object":{"code":500,"message":"etcd is away"}}\n'],
    ["is too long", "x".repeat(9 * 1024 * 1024)],
  ])("survives a line that %s", async (_, line) => {
    void follow().catch(() => undefined);
    await watches(1);
    api.sendRaw(line);
    await until(() => failures.length === 1);
    put("a");
    await hasSeen("all: ", "set a");
  });

  it("that is quiet is not cut, and is ended when its server does not end it", async () => {
    void follow().catch(() => undefined);
    await watches(1);
    await until(() => clock.pending.length > 0);
    await clock.advance(479_000);
    expect(api.watches).toHaveLength(1);
    expect(api.answers.filter((answer) => answer === "GET watch")).toHaveLength(1);
    await clock.advance(1_000);
    await until(() => api.answers.filter((answer) => answer === "GET watch").length === 2, 1_000);
    expect(seen).toEqual(["all: "]);
  });

  it("passes on what its reader throws", async () => {
    const changes = watchResource({ api: client, resource: WIDGETS, clock }, stop.signal);
    await changes.next();
    const failing = (async () => {
      for await (const _ of changes) throw new Error("a defect of the reader");
    })();
    await watches(1);
    put("a");
    await expect(failing).rejects.toThrow("a defect of the reader");
    await watches(0);
  });
});
