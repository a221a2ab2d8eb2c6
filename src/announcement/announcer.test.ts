import { describe, expect, it } from "vitest";
import { MemoryDataplane } from "../../test/stand-in/dataplane/memory-dataplane.ts";
import { ManualClock } from "../../test/stand-in/manual-clock.ts";
import type { PortOwner } from "../dataplane/port.ts";
import { silentLogger } from "../logging/logger.ts";
import { type PortRecord, portRecordSchema } from "../records/port-record.ts";
import { Announcer } from "./announcer.ts";
import { rarpRequest } from "./frames.ts";

const PORT = "vhu0123456789ab";
const MAC = "02:00:00:00:00:01";
const SIGNAL = new AbortController().signal;

function record(changes: Partial<PortRecord> = {}): PortRecord {
  return {
    ...portRecordSchema.parse({
      containerId: "container",
      startedAtMs: 1,
      bootId: "boot",
      releases: [],
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

async function rig(isEnabled = true) {
  const dataplane = new MemoryDataplane();
  const clock = new ManualClock();
  const outcomes: ("ok" | "failed")[] = [];
  const attached = { records: [record()] };
  const announcer = new Announcer({
    ports: { list: () => attached.records },
    isEnabled,
    onAnnounced: (outcome) => outcomes.push(outcome),
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
  // Each broadcast is followed by the same frame to a group.
  const broadcasts = () => sent().filter((_, index) => index % 2 === 0);
  return { dataplane, clock, outcomes, attached, announcer, broadcasts, sent };
}

describe("announcing guests", () => {
  const rarp = rarpRequest(MAC).toString("hex");

  it("begins when the port comes up and repeats with growing pauses", async () => {
    const { dataplane, clock, outcomes, announcer, broadcasts } = await rig();
    expect(broadcasts()).toEqual([]);
    dataplane.setLink(PORT, "up");
    await clock.advance(0);
    expect(broadcasts()).toEqual([rarp]);
    for (const [index, pauseMs] of [50, 100, 200, 400, 800].entries()) {
      expect(clock.pending).toEqual([pauseMs]);
      await clock.advance(pauseMs);
      expect(broadcasts().length).toBe(index + 2);
    }
    expect(clock.pending).toEqual([]);
    expect(outcomes).toEqual(["ok"]);
    await announcer.close();
  });

  it("goes to a new group each time as well, whose flow no switch has cached", async () => {
    const { dataplane, clock, announcer, sent } = await rig();
    dataplane.setLink(PORT, "up");
    await clock.advance(50);
    const toGroups = sent().filter((frame) => !frame.startsWith("ffffffffffff"));
    expect(toGroups.map((frame) => frame.slice(12))).toEqual(new Array(2).fill(rarp.slice(12)));
    const groups = toGroups.map((frame) => frame.slice(0, 12));
    expect(new Set(groups).size).toBe(2);
    for (const group of groups) expect(group).toMatch(/^03/);
    await announcer.close();
  });

  it("ends when the guest leaves, and begins from the start when it is back", async () => {
    const { dataplane, clock, outcomes, announcer, broadcasts } = await rig();
    dataplane.setLink(PORT, "up");
    await clock.advance(0);
    dataplane.setLink(PORT, "down");
    expect(outcomes).toEqual(["ok"]);
    await clock.advance(10_000);
    expect(broadcasts().length).toBe(1);
    dataplane.setLink(PORT, "up");
    await clock.advance(0);
    expect(broadcasts().length).toBe(2);
    expect(clock.pending).toEqual([50]);
    await announcer.close();
  });

  it("has the switch refresh its MAC table when a guest leaves an attached port", async () => {
    const { dataplane, attached, announcer } = await rig();
    dataplane.setLink(PORT, "up");
    expect(dataplane.refreshedBridges).toEqual([]);
    dataplane.setLink(PORT, "down");
    expect(dataplane.refreshedBridges).toEqual(["br0"]);
    attached.records = [record({ state: "detaching" })];
    dataplane.setLink(PORT, "down");
    expect(dataplane.refreshedBridges).toEqual(["br0"]);
    await announcer.close();
  });

  it("ends when the attachment does", async () => {
    const { dataplane, clock, attached, announcer, broadcasts, outcomes } = await rig();
    dataplane.setLink(PORT, "up");
    await clock.advance(0);
    attached.records = [record({ state: "detaching" })];
    await clock.advance(10_000);
    expect(outcomes).toEqual(["ok"]);
    expect(broadcasts()).toEqual([rarp]);
    await announcer.close();
  });

  it.each([
    ["a port without a record", [], true],
    ["a port that is being removed", [record({ state: "detaching" })], true],
    ["any port where the configuration says so", [record()], false],
  ])("leaves out %s", async (_, records, isEnabled) => {
    const { dataplane, clock, attached, announcer, broadcasts, outcomes } = await rig(isEnabled);
    attached.records = [...records];
    dataplane.setLink(PORT, "up");
    await clock.advance(10_000);
    await announcer.close();
    expect(broadcasts()).toEqual([]);
    expect(outcomes).toEqual([]);
  });

  it("retries where the switch is unreachable for a moment", async () => {
    const { dataplane, clock, announcer, broadcasts, outcomes } = await rig();
    dataplane.dead = true;
    dataplane.setLink(PORT, "up");
    await clock.advance(0);
    expect(broadcasts()).toEqual([]);
    dataplane.dead = false;
    await clock.advance(50);
    expect(broadcasts()).toEqual([rarp]);
    await announcer.close();
    expect(outcomes).toEqual(["ok"]);
  });

  it("counts a guest that the switch never announced", async () => {
    const { dataplane, clock, announcer, outcomes } = await rig();
    dataplane.dead = true;
    dataplane.setLink(PORT, "up");
    await clock.advance(1_600);
    expect(outcomes).toEqual(["failed"]);
    await announcer.close();
  });

  it("announces at most eight guests at a time to a switch that brings all up at once", async () => {
    const names = Array.from({ length: 20 }, (_, index) => `vhu${index}`);
    const { dataplane, clock, attached, announcer } = await rig();
    attached.records = names.map((portName) => record({ portName }));
    const hung = Promise.withResolvers<void>();
    const asked = new Set<string>();
    dataplane.announce = async ({ name }) => {
      asked.add(name);
      await hung.promise;
      return false;
    };
    for (const name of names) dataplane.setLink(name, "up");
    await clock.advance(0);
    expect(asked.size).toBe(8);
    hung.resolve();
    await clock.advance(0);
    expect(asked.size).toBe(20);
    await announcer.close();
  });

  it("ends with the switch", async () => {
    const { dataplane, clock, announcer, outcomes } = await rig();
    dataplane.setLink(PORT, "up");
    await clock.advance(0);
    await dataplane.close();
    await clock.advance(0);
    expect(outcomes).toEqual(["ok"]);
    await announcer.close();
  });
});
