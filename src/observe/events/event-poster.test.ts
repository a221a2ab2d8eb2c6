import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { EventsApi } from "../../../test/stand-in/api-server/events-api.ts";
import { ApiServer } from "../../kube-api/client.ts";
import type { Clock } from "../../sync/clock.ts";
import type { NodeEvent } from "./event.ts";
import { EventPoster } from "./event-poster.ts";

/** Time that stands still until it is moved; whoever sleeps until then wakes. */
class HandClock implements Clock {
  /** Milliseconds that anybody wanted to sleep. */
  readonly slept: number[] = [];
  #now = 1_700_000_000_000;
  readonly #sleepers = new Set<{ readonly until: number; readonly wake: () => void }>();

  now(): number {
    return this.#now;
  }

  monotonic(): number {
    return this.now();
  }

  sleep(ms: number, signal: AbortSignal): Promise<void> {
    this.slept.push(ms);
    return new Promise((resolve, reject) => {
      const sleeper = { until: this.#now + ms, wake: resolve };
      this.#sleepers.add(sleeper);
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      if (signal.aborted) reject(signal.reason);
    });
  }

  /** In steps, so that whoever sleeps again in between wakes again; everybody has had their turns afterwards. */
  async advance(ms: number): Promise<void> {
    for (let left = ms; left >= 0; left -= STEP_MS) {
      this.#now += Math.min(STEP_MS, left);
      for (const sleeper of this.#sleepers) {
        if (sleeper.until > this.#now) continue;
        this.#sleepers.delete(sleeper);
        sleeper.wake();
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

const STEP_MS = 1_000;

let directory: string;
let api: EventsApi;
let clock: HandClock;
let poster: EventPoster;
let logged: { readonly level: number; readonly msg: string; readonly reason?: string }[];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-events-"));
  api = await EventsApi.start();
  await writeFile(join(directory, "token"), "first");
  await writeFile(join(directory, "ca.crt"), api.ca);
  clock = new HandClock();
  logged = [];
  poster = new EventPoster({
    // Nobody would try again what was late: the poster's time stands still.
    api: new ApiServer({ url: api.url, serviceAccountDirectory: directory, deadlineMs: 60_000 }),
    reporter: { instance: "daemon" },
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
  ...{ type: "Warning", reason: "InterfaceFailed", action: "Attach", note: "no bridge" },
  ...change,
});
const objects = () => [...api.events.values()].map(({ object }) => object);

/**
 * Lets everybody have their turns until something is so, and time pass as well where somebody has to wake for it: a
 * server over TLS takes as long as it takes, and minutes would be over meanwhile.
 */
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
    poster.post(about("vm", { type: "Normal", reason: "InterfaceAttached" }));
    await posted(4);
    expect(objects()).toHaveLength(4);
    expect(poster.counts).toEqual({ posted: 4, merged: 0, dropped: 0, failed: 0 });
  });

  it("that happen again and again are one, whose count is told now and then", async () => {
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

  it("are made anew when the API server has forgotten them", async () => {
    poster.post(about("vm"));
    await posted(1);
    api.events.clear();
    poster.post(about("vm"));
    await posted(2, STEP_MS);
    expect(api.answers).toEqual(["POST 201", "PATCH 404", "POST 201"]);
    expect(objects()).toMatchObject([{ series: { count: 2 } }]);
  });

  it("are tried again when the server was busy, and made once when its answer was lost", async () => {
    api.illnesses.push({ kind: "status", status: 429, retryAfter: "20" }, { kind: "half" });
    poster.post(about("vm"));
    await posted(1, STEP_MS);
    expect(api.answers).toEqual(["POST 429", "POST 201", "POST 409"]);
    expect(objects()).toHaveLength(1);
    expect(poster.counts).toEqual({ posted: 1, merged: 0, dropped: 0, failed: 0 });
    expect(logged.map(({ msg }) => msg)).toEqual([
      "Kubernetes events are not taken",
      "Kubernetes events are taken again",
    ]);
  });

  it("are counted and forgotten when the server refuses them, with one line in the log", async () => {
    api.verbs.clear();
    for (let pod = 0; pod < 10; pod++) poster.post(about(`vm-${pod}`));
    await until(() => poster.counts.failed === 10);
    expect(poster.counts).toEqual({ posted: 0, merged: 0, dropped: 0, failed: 10 });
    expect(logged).toEqual([
      expect.objectContaining({
        msg: "Kubernetes events are not taken",
        reason: expect.stringContaining("403"),
      }),
    ]);
    api.verbs.add("create");
    poster.post(about("vm-0"));
    await posted(1);
  });

  it("of namespaces that go are told of once, though others are taken in between", async () => {
    for (let pod = 0; pod < 5; pod++) {
      poster.post(
        about(`vm-${pod}`, { regarding: { kind: "Pod", namespace: "gone", name: `vm-${pod}`, uid: "" } }),
      );
      poster.post(about(`vm-${pod}`));
    }
    await until(() => poster.counts.failed === 5 && poster.counts.posted === 5);
    expect(logged.map(({ msg }) => msg)).toEqual([
      "Kubernetes events are not taken",
      "Kubernetes events are taken again",
    ]);
  });

  it("wait in a bounded queue while the server is silent; the oldest make room", async () => {
    api.illnesses.push({ kind: "silent" });
    poster.post(about("first"));
    await api.hasAnswered(1);
    for (let pod = 0; pod < 2_000; pod++) poster.post(about(`vm-${pod}`));
    expect(poster.counts).toMatchObject({ posted: 0, dropped: 2_000 - 256 });
  });

  it("come no faster than five a second after the first of them", async () => {
    for (let pod = 0; pod < 60; pod++) poster.post(about(`vm-${pod}`));
    // It stands still meanwhile.
    await until(() => clock.slept.includes(200));
    expect(api.answers.length).toBe(25);
    await posted(60, STEP_MS);
  });

  it("about what Kubernetes cannot have are dropped", async () => {
    poster.post(about("NOT/A/POD"));
    expect(poster.counts).toEqual({ posted: 0, merged: 0, dropped: 1, failed: 0 });
  });

  it("end with the daemon, whatever the server does", async () => {
    api.illnesses.push({ kind: "silent" });
    poster.post(about("vm"));
    await api.hasAnswered(1);
    await poster.close();
    poster.post(about("late"));
    expect(poster.counts.dropped).toBe(1);
  });
});
