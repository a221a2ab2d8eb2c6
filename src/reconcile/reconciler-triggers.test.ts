import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../test/stand-in/manual-clock.ts";
import { ReconcilerRig, type ReconcilerWishes } from "../../test/stand-in/reconcile/reconciler-rig.ts";
import { silentLogger } from "../logging/logger.ts";
import type { Reconciler } from "./reconciler.ts";

let rig: ReconcilerRig;
let clock: ManualClock;
let running: Reconciler | undefined;
/** How often kubelet's list was read. */
let lists: number;
/** Ports that the first switch was asked for since the first pass. */
let asked: string[];
beforeEach(async () => {
  rig = await ReconcilerRig.open();
  clock = new ManualClock(rig.now);
  lists = 0;
  asked = [];
});
afterEach(async () => {
  await running?.close();
  running = undefined;
  await rig.close();
});

/** Lets time pass, a little at a time, until something is so. */
async function until(isSo: () => boolean): Promise<void> {
  await expect
    .poll(
      async () => {
        await clock.advance(50);
        return isSo();
      },
      { interval: 5 },
    )
    .toBe(true);
}

/** A reconciler after its first pass. */
async function started(wishes: ReconcilerWishes = {}): Promise<Reconciler> {
  const { one } = rig.switches;
  const ensure = one.ensurePort.bind(one);
  one.ensurePort = (request, signal) => {
    asked.push(request.name);
    return ensure(request, signal);
  };
  const passed = Promise.withResolvers<void>();
  const reconciler = rig.reconciler({
    clock,
    onList: () => {
      lists += 1;
    },
    ...wishes,
    observer: { passBegan: () => passed.resolve, ...wishes.observer },
  });
  running = reconciler;
  reconciler.start();
  if (wishes.observer?.passBegan === undefined) await passed.promise;
  asked.length = 0;
  return reconciler;
}

describe("a reconciler between two passes", () => {
  it("restores all ports at once, retries until the switch has its bridge, and reclaims nothing", async () => {
    const names = await rig.attach(40);
    const failed = new Set<string>();
    const reconciler = await started({
      observer: { portTried: (port, isSettled) => void (isSettled || failed.add(port)) },
    });
    const { one } = rig.switches;
    expect(one.ports.size).toBe(40);
    // The switch restarts, without its bridge for a while.
    one.ports.clear();
    one.bridges.clear();
    reconciler.repairAllPorts();
    await until(() => failed.size === 40);
    one.bridges.add("br0");
    await until(() => one.ports.size === 40);
    expect([...one.ports.keys()].sort()).toEqual(names);
    expect(lists).toBe(1);
  });

  it("retries only the port that cannot be repaired, warns at the pass and at the last retry, and leaves it to the next pass", async () => {
    const [broken = "", ...others] = await rig.attach(3);
    rig.switches.one.foreign.add(broken);
    const logged: string[] = [];
    const note = (level: string) => (_: object, text?: string) => {
      if (text === "port cannot be repaired") logged.push(level);
    };
    const logger = { ...silentLogger, warn: note("warn"), debug: note("debug") } as typeof silentLogger;
    const reconciler = await started({ logger });
    await until(() => logged.length === 11);
    expect(logged).toEqual(["warn", ...new Array(9).fill("debug"), "warn"]);
    expect(new Set(asked)).toEqual(new Set([broken]));
    asked.length = 0;
    // Something changes it again: it is retried exactly once.
    reconciler.disturbed([broken]);
    await until(() => asked.length === 1);
    await clock.advance(10_000);
    expect(asked).toEqual([broken]);
    reconciler.repairAllPorts();
    await until(() => asked.length === 2 + 1 + 10 + 1);
    expect(asked.filter((name) => others.includes(name)).sort()).toEqual(others);
  });

  it("retries a port that something else changed until it is restored", async () => {
    const [one = "", two = ""] = await rig.attach(2);
    const { foreign, ports } = rig.switches.one;
    const reconciler = await started();
    ports.delete(two);
    foreign.add(two);
    reconciler.disturbed([two]);
    await until(() => asked.length === 4);
    foreign.delete(two);
    await until(() => ports.has(two));
    expect([...ports.keys()].sort()).toEqual([one, two]);
    expect(new Set(asked)).toEqual(new Set([two]));
  });

  it("checks all ports at most every 0.8 seconds, however often they may have changed", async () => {
    await rig.attach(2);
    const reconciler = await started();
    for (let times = 0; times < 3; times++) reconciler.disturbed("all");
    await clock.advance(50);
    await expect.poll(() => asked.length).toBe(2);
    for (let times = 0; times < 3; times++) reconciler.disturbed("all");
    // One that is named is repaired meanwhile.
    reconciler.disturbed(["vhu-net0"]);
    await clock.advance(700);
    await expect.poll(() => asked.length).toBe(3);
    await clock.advance(100);
    await expect.poll(() => asked.length).toBe(5);
  });

  it("repairs only the ports that something else changed, without a pass", async () => {
    const [one = "", two = ""] = await rig.attach(2);
    const repaired: string[] = [];
    const reconciler = await started({ observer: { repaired: (kind) => repaired.push(kind) } });
    expect(repaired.splice(0)).toEqual(["port", "port"]);
    rig.switches.one.ports.clear();
    reconciler.disturbed([one]);
    await until(() => repaired.length === 1);
    expect([...rig.switches.one.ports.keys()]).toEqual([one]);
    reconciler.disturbed("all");
    await until(() => repaired.length === 2);
    expect([...rig.switches.one.ports.keys()].sort()).toEqual([one, two]);
    expect(lists).toBe(1);
  });

  it("restores a device-info file and an allocation's directory as soon as something removes them", async () => {
    await rig.allocate("one");
    await clock.advance(60_000);
    const restored: string[] = [];
    await started({ observer: { repaired: (kind) => restored.push(kind) } });
    const [allocation] = rig.records.allocations.list();
    if (allocation === undefined) throw new Error("no allocation");
    const file = join(rig.config.deviceInfoDirectory, "dp", "vhostuser-one-one-00000-device.json");
    const before = await readFile(file, "utf8");
    await rm(file);
    await until(() => restored.length === 1);
    expect(await readFile(file, "utf8")).toBe(before);
    const directory = join(rig.config.root, allocation.id);
    await rm(directory, { recursive: true });
    await until(() => restored.length === 2);
    expect(await readdir(directory)).toEqual(["one-00000"]);
    expect(lists).toBe(1);
  });

  it("restores ports whose socket a restarted switch made and no ADD moves", async () => {
    const sockets = join(rig.config.root, "..", "switch");
    await mkdir(sockets);
    for (const pool of rig.config.pools) Object.assign(pool, { switchSockets: sockets });
    const [port = ""] = await rig.attach(1);
    await started();
    // One that an ADD moves is no reason to repair anything.
    await writeFile(join(sockets, port), "");
    await rename(join(sockets, port), join(sockets, "..", "moved"));
    await writeFile(join(sockets, "of-no-port"), "");
    await clock.advance(2_000);
    expect(asked).toEqual([]);
    await writeFile(join(sockets, port), "");
    await until(() => asked.length > 0);
    expect(asked).toEqual([port]);
  });

  it("runs a pass at its interval, whatever else triggers it in between", async () => {
    const [port = ""] = await rig.attach(1);
    const startMs = clock.now();
    const passes: number[] = [];
    const reconciler = await started({
      observer: {
        passBegan: () => {
          passes.push(clock.now() - startMs);
          return () => undefined;
        },
      },
    });
    await expect.poll(() => lists).toBe(1);
    for (let times = 0; times < 450; times++) {
      if (times % 2 === 0) reconciler.disturbed([port]);
      else reconciler.repairAllPorts();
      await clock.advance(200);
    }
    await expect.poll(() => passes).toEqual([0, 30_000, 60_000, 90_000]);
  });
});

describe("passes of a node on which nothing changes", () => {
  it("check files until all are settled, after a change, and else every tenth time; those of claims always", async () => {
    await rig.allocate("one");
    let hasChanged = true;
    const checkedIn: number[] = [];
    let claimChecks = 0;
    const repairClaims = async () => {
      claimChecks += 1;
    };
    const directories = {
      check: () => void checkedIn.push(lists),
      takeChanged() {
        const was = hasChanged;
        hasChanged = false;
        return was;
      },
    };
    await started({
      directories,
      repairClaims,
      config: { reclaim: { intervalSeconds: 30, graceSeconds: 3600 } },
    });
    const pass = async () => {
      const before = lists;
      await clock.advance(30_000);
      await until(() => lists > before);
    };
    for (let times = 0; times < 15; times++) await pass();
    // The first was made too early for what had just been allocated.
    expect(checkedIn).toEqual([0, 1, 11]);
    // They come after the list that each pass begins with.
    await until(() => claimChecks === lists);
    hasChanged = true;
    await pass();
    expect(checkedIn.at(-1)).toBe(16);
  });
});

describe("a pass that hangs", () => {
  it("shows no progress, whatever is repaired meanwhile", async () => {
    const [port = ""] = await rig.attach(1, "virt-launcher-a");
    const reached = Promise.withResolvers<void>();
    let progress = 0;
    const repaired: string[] = [];
    const reconciler = await started({
      config: { reconnectSilentAfterSeconds: 1 },
      onList: () => {
        reached.resolve();
        return new Promise(() => undefined);
      },
      observer: {
        passBegan: () => () => undefined,
        progress: () => {
          progress += 1;
        },
        repaired: (kind) => repaired.push(kind),
      },
    });
    running = undefined; // it would wait for the pass
    await reached.promise;
    const before = progress;
    repaired.length = 0;
    rig.switches.one.ports.clear();
    reconciler.disturbed([port]);
    await until(() => repaired.includes("port"));
    rig.switches.one.ports.clear();
    reconciler.repairAllPorts();
    await until(() => repaired.length === 2);
    expect(progress).toBe(before);
  });

  it("shows no progress while silent guests are looked for", async () => {
    await rig.attach(1, "virt-launcher-a");
    let progress = 0;
    const guests = rig.silentGuests(1_000, { observer: { progress: () => progress++ } });
    const [record] = rig.records.ports.list();
    const path = record?.switchSocketPath ?? "";
    await mkdir(join(path, ".."), { recursive: true });
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(path, resolve));
    const { one } = rig.switches;
    let inspected = 0;
    const inspect = one.inspectPorts.bind(one);
    one.inspectPorts = (signal) => {
      inspected += 1;
      return inspect(signal);
    };
    await guests.reconnectSilentGuests();
    rig.now += 1_000;
    await guests.reconnectSilentGuests();
    server.close();
    expect([inspected, progress]).toEqual([1, 0]);
  });
});
