import { rmSync, symlinkSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { dirname } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../test/stand-in/manual-clock.ts";
import { ReconcilerRig } from "../../test/stand-in/reconcile/reconciler-rig.ts";
import type { PortRecord } from "../records/port-record.ts";
import type { SilentGuests } from "./silent-guests.ts";

const AFTER_MS = 30_000;
const PORT = "vhu-net0";
const VM = "virt-launcher-web-x7k2p";

let rig: ReconcilerRig;
let servers: Server[];
/** Ports that the switch lost and was asked for since. */
let made: string[];
beforeEach(async () => {
  rig = await ReconcilerRig.open();
  servers = [];
  made = [];
});
afterEach(async () => {
  for (const server of servers) server.close();
  await rig.close();
});

const portRecord = (): PortRecord => {
  const [record] = rig.records.ports.list();
  if (record === undefined) throw new Error("no record of a port");
  return record;
};

/** A pod with one port in the switch. */
async function attached(podName = VM): Promise<void> {
  await rig.attach(1, podName);
  const { one } = rig.switches;
  const { bridge, switchSocketPath: socketPath, settings } = portRecord();
  const owner = {} as Parameters<typeof one.ensurePort>[0]["owner"];
  await one.ensurePort({ name: PORT, bridge, socketPath, settings, owner }, AbortSignal.timeout(5_000));
  const remove = one.removePort.bind(one);
  one.removePort = async (name, signal) => {
    const removed = await remove(name, signal);
    if (removed) made.push(name);
    return removed;
  };
}

/** QEMU listens. */
async function bound(): Promise<void> {
  const { switchSocketPath: path } = portRecord();
  await mkdir(dirname(path), { recursive: true });
  rmSync(path, { force: true });
  const server = createServer();
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(path, resolve));
}

/** Root of a pod puts something in the place of an interface's directory. */
async function planted(plant: (path: string) => void): Promise<void> {
  await attached();
  const directory = dirname(portRecord().switchSocketPath);
  await mkdir(dirname(directory), { recursive: true });
  rmSync(directory, { recursive: true, force: true });
  plant(directory);
}

/** One check at each of these times, in milliseconds after the first; how often the port was reconnected by then. */
async function checks(guests: SilentGuests, ...timesMs: readonly number[]): Promise<readonly number[]> {
  const start = rig.now;
  const counts: number[] = [];
  await guests.reconnectSilentGuests();
  for (const time of timesMs) {
    rig.now = start + time;
    await guests.reconnectSilentGuests();
    counts.push(made.length);
  }
  return counts;
}

describe("a VM whose guest is never seen", () => {
  it("is reconnected seven times in all, after twice the time each", async () => {
    await attached();
    await bound();
    const repaired: string[] = [];
    const guests = rig.silentGuests(AFTER_MS, {
      observer: { repaired: (kind: string) => repaired.push(kind) },
    });
    expect(await checks(guests, AFTER_MS - 1, AFTER_MS, 2 * AFTER_MS - 1, 2 * AFTER_MS)).toEqual([
      0, 1, 1, 2,
    ]);
    const later = Array.from({ length: 20 }, (_, index) => 2 ** (index + 2) * AFTER_MS);
    const counts = await checks(guests, ...later);
    expect(counts.at(-1)).toBe(7);
    expect(repaired).toEqual(new Array(7).fill("silent-guest"));
    expect(rig.switches.one.ports.has(PORT), "the port is there again").toBe(true);
  });

  it("is left alone once it was seen, whatever its link does", async () => {
    await attached();
    await bound();
    const guests = rig.silentGuests(AFTER_MS);
    rig.switches.one.setLink(PORT, "up");
    await checks(guests, AFTER_MS);
    rig.switches.one.setLink(PORT, "down");
    expect(await checks(guests, 10 * AFTER_MS)).toEqual([0]);
  });

  it("was seen also where only the switch's counters show it", async () => {
    await attached();
    await bound();
    const none = { packets: 0, bytes: 0, dropped: 0 };
    const traffic = { fromGuest: { ...none, packets: 1 }, toGuest: none };
    rig.switches.one.inspected.set(PORT, { traffic });
    expect(await checks(rig.silentGuests(AFTER_MS), AFTER_MS, 10 * AFTER_MS)).toEqual([0, 0]);
  });

  it("is given its time from when its QEMU listens", async () => {
    await attached();
    const guests = rig.silentGuests(AFTER_MS);
    expect(await checks(guests, 10 * AFTER_MS)).toEqual([0]);
    await bound();
    expect(await checks(guests, AFTER_MS - 1, AFTER_MS)).toEqual([0, 1]);
  });

  it("gets no further tries for a new socket, but waits again before the next one", async () => {
    await attached();
    await bound();
    const guests = rig.silentGuests(AFTER_MS);
    for (let times = 0; times < 10; times += 1) {
      await bound();
      await checks(guests, 2 ** 10 * AFTER_MS);
    }
    expect(made.length).toBe(7);
  });

  it("gets its port back where the switch fails once to make it", async () => {
    await attached();
    await bound();
    const guests = rig.silentGuests(AFTER_MS);
    await checks(guests);
    const { one } = rig.switches;
    one.portError = "no more memory";
    rig.now += AFTER_MS;
    await guests.reconnectSilentGuests();
    expect(made).toEqual([PORT]);
    expect(one.ports.has(PORT)).toBe(false);
    one.portError = undefined;
    await expect.poll(() => one.ports.has(PORT)).toBe(true);
  });

  it("waits while its switch does not answer", async () => {
    await attached();
    await bound();
    const guests = rig.silentGuests(AFTER_MS);
    await checks(guests);
    rig.switches.one.dead = true;
    rig.now += AFTER_MS;
    await guests.reconnectSilentGuests();
    rig.switches.one.dead = false;
    expect(made).toEqual([]);
    await guests.reconnectSilentGuests();
    expect(made).toEqual([PORT]);
  });

  it.each([
    ["a pod without a VM", async () => attached("dpdk-app").then(bound)],
    [
      "a VM that has no socket but something else in its place",
      async () => {
        await attached();
        const { switchSocketPath } = portRecord();
        await mkdir(dirname(switchSocketPath), { recursive: true });
        writeFileSync(switchSocketPath, "");
      },
    ],
    ["a VM that has a file in the place of its directory", () => planted((path) => writeFileSync(path, ""))],
    ["a VM that has a link in the place of its directory", () => planted((path) => symlinkSync(path, path))],
    [
      "a port that is being removed",
      async () => {
        await attached();
        await bound();
        await rig.records.ports.put({ ...portRecord(), state: "detaching" });
      },
    ],
  ])("is not %s", async (_, arrange) => {
    await arrange();
    expect(await checks(rig.silentGuests(AFTER_MS), AFTER_MS, 4 * AFTER_MS)).toEqual([0, 0]);
  });

  it("is found by checks at intervals", async () => {
    await attached();
    await bound();
    const clock = new ManualClock();
    const stop = new AbortController();
    const running = rig.silentGuests(AFTER_MS, { clock }).run(stop.signal);
    const reconnected = async () => {
      await clock.advance(5_000);
      return made.length;
    };
    await expect.poll(reconnected).toBe(1);
    stop.abort();
    await running;
  });

  it("is never checked where the configuration says so", async () => {
    const clock = new ManualClock();
    await rig.silentGuests(0, { clock }).run(new AbortController().signal);
    expect(clock.pending).toEqual([]);
  });
});
