import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakeApiServer } from "../../../test/stand-in/api-server/fake-api-server.ts";
import { ManualClock } from "../../../test/stand-in/manual-clock.ts";
import { KubeApi } from "../../kube-api/client.ts";
import type { NodeEvent } from "./event.ts";
import { EventPoster } from "./event-poster.ts";

const STEP_MS = 1_000;

let directory: string;
let api: FakeApiServer;
let clock: ManualClock;
let poster: EventPoster;
let logged: { readonly level: number; readonly msg: string; readonly reason?: string }[];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-events-"));
  api = await FakeApiServer.start();
  await writeFile(join(directory, "token"), "first");
  await writeFile(join(directory, "ca.crt"), api.ca);
  clock = new ManualClock(1_700_000_000_000);
  logged = [];
  poster = new EventPoster({
    // A late answer would not be retried: the poster's clock stands still.
    api: new KubeApi({ url: api.url, serviceAccountDirectory: directory, deadlineMs: 60_000 }),
    program: "daemon",
    instance: "daemon",
    clock,
    logger: pino({}, { write: (line) => logged.push(JSON.parse(line)) }),
  });
});
afterEach(async () => {
  await poster.close();
  await api.close();
  await rm(directory, { recursive: true });
});

const about = (name: string, change: Partial<NodeEvent> = {}): NodeEvent => ({
  regarding: { kind: "Pod", namespace: "tenant", name, uid: "u" },
  ...{ reason: "InterfaceFailed", action: "Attach", note: "no bridge" },
  ...change,
});
const objects = () => api.events;

/** Waits until something is so; a server over TLS takes as long as it takes, and the clock moves only by `stepMs`. */
async function until(isSo: () => boolean, stepMs = 0): Promise<void> {
  const end = AbortSignal.timeout(60_000);
  while (!isSo()) {
    end.throwIfAborted();
    await clock.advance(stepMs);
  }
}

const posted = (count: number, stepMs = 0) => until(() => poster.counts.posted === count, stepMs);

describe("events", () => {
  it("are posted one for each pod, reason and subject", async () => {
    poster.post(about("vm"));
    poster.post(about("vm", { subject: "net2" }));
    poster.post(about("other"));
    poster.post(about("vm", { reason: "InterfaceAttached" }));
    await posted(4);
    expect(objects()).toHaveLength(4);
    expect(poster.counts).toEqual({ posted: 4, merged: 0, dropped: 0, failed: 0 });
  });

  it("that repeat are one, whose count is updated now and then", async () => {
    for (let time = 0; time < 100; time++) poster.post(about("vm"));
    await posted(1);
    expect(objects()).toMatchObject([{ note: "no bridge" }]);
    for (let minute = 0; minute < 30; minute++) {
      for (let time = 0; time < 10; time++) poster.post(about("vm", { note: `try ${time}` }));
      await clock.advance(60_000);
    }
    await until(() => (objects()[0]?.["series"] as { count: number } | undefined)?.count === 400, STEP_MS);
    expect(objects()).toMatchObject([{ note: "no bridge" }]);
    // Half a minute, then twice as long each time, up to five minutes.
    expect(api.answers.length).toBeLessThan(15);
    expect(poster.counts).toEqual({ posted: 1, merged: 399, dropped: 0, failed: 0 });
  });

  it("begin a new series when they had not happened for long", async () => {
    poster.post(about("vm"));
    await posted(1);
    await clock.advance(700_000);
    poster.post(about("vm", { note: "again" }));
    await posted(2);
    expect(objects().map(({ note }) => note)).toEqual(["no bridge", "again"]);
  });

  it("are created again when the API server has deleted them", async () => {
    poster.post(about("vm"));
    await posted(1);
    for (const { metadata } of api.events) api.store.remove("tenant/events", metadata.name, {});
    poster.post(about("vm"));
    await posted(2, STEP_MS);
    expect(api.answers).toEqual(["POST 201", "PATCH 404", "POST 201"]);
    expect(objects()).toMatchObject([{ series: { count: 2 } }]);
  });

  it("are retried when the server was busy, and created once when its answer was lost", async () => {
    api.illnesses.push({ kind: "status", status: 429, retryAfter: "20" }, { kind: "half" });
    poster.post(about("vm"));
    await posted(1, STEP_MS);
    expect(api.answers).toEqual(["POST 429", "POST 201", "POST 409"]);
    expect(objects()).toHaveLength(1);
    expect(poster.counts).toEqual({ posted: 1, merged: 0, dropped: 0, failed: 0 });
    expect(logged.map(({ msg }) => msg)).toEqual([
      "Kubernetes events cannot be posted",
      "event posting recovered",
    ]);
  });

  it("are counted and forgotten when the server refuses them, with one line in the log", async () => {
    api.verbs.clear();
    for (let pod = 0; pod < 10; pod++) poster.post(about(`vm-${pod}`));
    await until(() => poster.counts.failed === 10);
    expect(poster.counts).toEqual({ posted: 0, merged: 0, dropped: 0, failed: 10 });
    expect(logged).toEqual([
      expect.objectContaining({
        msg: "Kubernetes events cannot be posted",
        reason: expect.stringContaining("403"),
      }),
    ]);
    api.verbs.add("create");
    poster.post(about("vm-0"));
    await posted(1);
  });

  it("of deleted namespaces are logged once, though others are posted in between", async () => {
    for (let pod = 0; pod < 5; pod++) {
      poster.post(
        about(`vm-${pod}`, { regarding: { kind: "Pod", namespace: "gone", name: `vm-${pod}`, uid: "" } }),
      );
      poster.post(about(`vm-${pod}`));
    }
    await until(() => poster.counts.failed === 5 && poster.counts.posted === 5);
    expect(logged.map(({ msg }) => msg)).toEqual([
      "Kubernetes events cannot be posted",
      "event posting recovered",
    ]);
  });

  it("are bounded while the server is silent: the oldest are dropped", async () => {
    api.illnesses.push({ kind: "silent" });
    poster.post(about("first"));
    await api.hasAnswered(1);
    for (let pod = 0; pod < 2_000; pod++) poster.post(about(`vm-${pod}`));
    expect(poster.counts).toMatchObject({ posted: 0, dropped: 2_001 - 1_000 });
  });

  it("are posted at five a second after the first 25", async () => {
    for (let pod = 0; pod < 60; pod++) poster.post(about(`vm-${pod}`));
    await until(() => clock.pending.includes(200));
    expect(api.answers.length).toBe(25);
    await posted(60, STEP_MS);
  });

  it("about names that Kubernetes cannot have are dropped", async () => {
    poster.post(about("NOT/A/POD"));
    expect(poster.counts).toEqual({ posted: 0, merged: 0, dropped: 1, failed: 0 });
  });

  it("stop with the daemon, whatever the server does", async () => {
    api.illnesses.push({ kind: "silent" });
    poster.post(about("vm"));
    await api.hasAnswered(1);
    await poster.close();
    poster.post(about("late"));
    expect(poster.counts.dropped).toBe(1);
  });
});
