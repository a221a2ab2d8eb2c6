import { describe, expect, it } from "vitest";
import { waitUntil } from "../../test/machine/wait-until.ts";
import { MemoryDataplane } from "../../test/stand-in/dataplane/memory-dataplane.ts";
import type { PortOwner } from "../dataplane/port.ts";
import { silentLogger } from "../logging/logger.ts";
import { type PortRecord, portRecordSchema } from "../records/port-record.ts";
import type { Clock } from "../sync/clock.ts";
import { orAborted } from "../sync/deadlines.ts";
import { type AnnouncementOutcome, Announcer } from "./announcer.ts";
import { rarpRequest } from "./frames.ts";

const PORT = "vhu0123456789ab";
const MAC = "02:00:00:00:00:01";
const SIGNAL = new AbortController().signal;

/** Time that stands still until it is moved. */
class HandClock implements Clock {
  readonly slept: number[] = [];
  #sleeping: PromiseWithResolvers<void> | undefined;
  #fellAsleep = Promise.withResolvers<void>();

  now(): number {
    return 0;
  }

  monotonic(): number {
    return this.now();
  }

  async sleep(ms: number, signal: AbortSignal): Promise<void> {
    this.slept.push(ms);
    this.#sleeping = Promise.withResolvers();
    this.#fellAsleep.resolve();
    await orAborted(this.#sleeping.promise, signal);
  }

  /** Resolves once somebody sleeps. */
  asleep(): Promise<void> {
    return this.#fellAsleep.promise;
  }

  wake(): void {
    this.#fellAsleep = Promise.withResolvers();
    this.#sleeping?.resolve();
  }
}

function record(changes: Partial<PortRecord> = {}): PortRecord {
  return {
    ...portRecordSchema.parse({
      containerId: "container",
      interfaceName: "net1",
      state: "attached",
      allocationId: "0123456789abcdef",
      device: "sockets-1",
      pool: "sockets",
      portName: PORT,
      bridge: "br0",
      switchSocketPath: "/vhu/vhost.sock",
      podSocketPath: "/vhu/vhost.sock",
      mac: MAC,
      settings: {},
      network: "net",
      netns: "/proc/1/ns/net",
      podNamespace: "default",
      podName: "vm",
      podUid: "uid",
      createdAt: 0,
    }),
    ...changes,
  };
}

async function rig(first: PortRecord = record()) {
  const dataplane = new MemoryDataplane();
  const clock = new HandClock();
  const outcomes: AnnouncementOutcome[] = [];
  const told = { records: [first], isWanted: true, outcome: Promise.withResolvers<void>() };
  const announcer = new Announcer({
    ports: { list: () => told.records },
    isWanted: () => told.isWanted,
    onAnnounced: (outcome) => {
      outcomes.push(outcome);
      told.outcome.resolve();
    },
    clock,
    logger: silentLogger,
  });
  announcer.follow(dataplane);
  const owner = {} as PortOwner;
  await dataplane.ensurePort(
    { name: PORT, bridge: "br0", socketPath: "/vhu/vhost.sock", settings: {}, owner },
    SIGNAL,
  );
  const sent = () => (dataplane.announced.get(PORT) ?? []).map((frame) => Buffer.from(frame).toString("hex"));
  // Of those to everybody and to a group of their own, which go together, the former.
  const frames = () => sent().filter((_, index) => index % 2 === 0);
  return { dataplane, clock, outcomes, told, announcer, frames, sent };
}

describe("announcing guests", () => {
  const rarp = rarpRequest(MAC).toString("hex");

  it("begins when the port comes up and goes on with growing gaps", async () => {
    const { dataplane, clock, outcomes, told, announcer, frames } = await rig();
    expect(frames()).toEqual([]);
    dataplane.setLink(PORT, "up");
    for (let times = 1; times <= 5; times++) {
      await clock.asleep();
      expect(frames()).toEqual(new Array(times).fill(rarp));
      clock.wake();
    }
    await told.outcome.promise;
    expect(frames()).toEqual(new Array(6).fill(rarp));
    expect(clock.slept).toEqual([50, 100, 200, 400, 800]);
    expect(outcomes).toEqual(["ok"]);
    await announcer.close();
  });

  it("goes to a new group each time too, whose flow no switch has cached", async () => {
    const { dataplane, clock, told, announcer, sent } = await rig();
    dataplane.setLink(PORT, "up");
    await clock.asleep();
    clock.wake();
    await clock.asleep();
    const toGroups = sent().filter((frame) => !frame.startsWith("ffffffffffff"));
    expect(toGroups.map((frame) => frame.slice(12))).toEqual(new Array(2).fill(rarp.slice(12)));
    const groups = toGroups.map((frame) => frame.slice(0, 12));
    expect(new Set(groups).size).toBe(2);
    for (const group of groups) expect(group).toMatch(/^03/);
    dataplane.setLink(PORT, "down");
    await told.outcome.promise;
    await announcer.close();
  });

  it("ends when the guest leaves, and begins anew when it is back", async () => {
    const { dataplane, clock, told, announcer, frames } = await rig();
    dataplane.setLink(PORT, "up");
    await clock.asleep();
    dataplane.setLink(PORT, "down");
    await told.outcome.promise;
    expect(frames()).toEqual([rarp]);
    clock.wake();
    dataplane.setLink(PORT, "up");
    await clock.asleep();
    expect(frames()).toEqual([rarp, rarp]);
    expect(clock.slept).toEqual([50, 50]);
    await announcer.close();
  });

  it("has the switch look for a guest that has left", async () => {
    const { dataplane, clock, told, announcer } = await rig();
    dataplane.setLink(PORT, "up");
    await clock.asleep();
    expect(dataplane.refreshedBridges).toEqual([]);
    dataplane.setLink(PORT, "down");
    expect(dataplane.refreshedBridges).toEqual(["br0"]);
    told.isWanted = false;
    dataplane.setLink(PORT, "down");
    told.isWanted = true;
    told.records = [record({ state: "detaching" })];
    dataplane.setLink(PORT, "down");
    expect(dataplane.refreshedBridges).toEqual(["br0"]);
    await announcer.close();
  });

  it("ends when the attachment does", async () => {
    const { dataplane, clock, told, announcer, frames } = await rig();
    dataplane.setLink(PORT, "up");
    await clock.asleep();
    told.records = [record({ state: "detaching" })];
    clock.wake();
    await told.outcome.promise;
    expect(frames()).toEqual([rarp]);
    await announcer.close();
  });

  it.each([
    ["a port without a record", [], true],
    ["a port that is being removed", [record({ state: "detaching" })], true],
    ["any port where the configuration says so", [record()], false],
  ])("leaves out %s", async (_, records, isWanted) => {
    const { dataplane, told, announcer, frames, outcomes } = await rig();
    told.records = [...records];
    told.isWanted = isWanted;
    dataplane.setLink(PORT, "up");
    await announcer.close(); // waits for what is under way
    expect(frames()).toEqual([]);
    expect(outcomes).toEqual([]);
  });

  it("tries again where the switch is away for a moment", async () => {
    const { dataplane, clock, told, announcer, frames, outcomes } = await rig();
    dataplane.dead = true;
    dataplane.setLink(PORT, "up");
    await clock.asleep();
    expect(frames()).toEqual([]);
    dataplane.dead = false;
    clock.wake();
    await clock.asleep();
    expect(frames()).toEqual([rarp]);
    await announcer.close();
    await told.outcome.promise;
    expect(outcomes).toEqual(["ok"]);
  });

  it("counts a guest that the switch never announced", async () => {
    const { dataplane, clock, told, announcer, outcomes } = await rig();
    dataplane.dead = true;
    dataplane.setLink(PORT, "up");
    for (let times = 1; times <= 5; times++) {
      await clock.asleep();
      clock.wake();
    }
    await told.outcome.promise;
    expect(outcomes).toEqual(["failed"]);
    await announcer.close();
  });

  it("hands a switch that brings all guests up at once eight of them at a time", async () => {
    const names = Array.from({ length: 20 }, (_, index) => `vhu${index}`);
    const { dataplane, told, announcer } = await rig();
    told.records = names.map((portName) => record({ portName }));
    const hung = Promise.withResolvers<void>();
    let asked = 0;
    dataplane.announce = async () => {
      asked += 1;
      await hung.promise;
      return false;
    };
    for (const name of names) dataplane.setLink(name, "up");
    await new Promise((resolve) => setImmediate(resolve));
    expect(asked).toBe(8);
    hung.resolve();
    await waitUntil(async () => asked === 20, { what: "all are announced", limitMs: 30_000 });
    await announcer.close();
  });

  it("ends with the switch", async () => {
    const { dataplane, clock, told, announcer } = await rig();
    dataplane.setLink(PORT, "up");
    await clock.asleep();
    await dataplane.close();
    await told.outcome.promise;
    await announcer.close();
  });
});
