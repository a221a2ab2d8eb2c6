import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MemoryDataplane } from "../../test/stand-in/dataplane/memory-dataplane.ts";
import { ContainerTurns } from "../attachment/container-turns.ts";
import type { Clock } from "../clock/clock.ts";
import { parseConfig } from "../config/load.ts";
import type { DaemonConfig } from "../config/schema.ts";
import { createAllocator } from "../device-plugin/allocate.ts";
import { silentLogger } from "../logging/logger.ts";
import { openRecords, type Records } from "../records/records.ts";
import { listAllocationDirectories } from "../socket-directory/list.ts";
import { type ReconcileObserver, unobserved } from "./reconcile-observer.ts";
import { Reconciler } from "./reconciler.ts";

const OWN_POD = { namespace: "ns", name: "daemon" };
let top: string;
let config: DaemonConfig;
let records: Records;
let switches: Record<"one" | "two", MemoryDataplane>;
let now: number;

beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), "kvu-rec-"));
  await mkdir(join(top, "run"));
  now = 1_000_000;
  switches = { one: new MemoryDataplane(), two: new MemoryDataplane() };
  const pool = (name: string) => ({
    name,
    resource: `vhostuser/${name}`,
    capacity: 4,
    dataplane: { type: "ovs-dpdk", bridge: "br0", database: `/run/${name}.sock` },
  });
  const text = JSON.stringify({
    node: "n1",
    root: join(top, "run"),
    recordsDirectory: join(top, "records"),
    deviceInfoDirectory: join(top, "devinfo"),
    reclaim: { intervalSeconds: 30, graceSeconds: 10 },
    pools: [pool("one"), pool("two")],
  });
  config = parseConfig(text, "test");
  records = await openRecords(config.recordsDirectory);
});
afterEach(() => rm(top, { recursive: true }));

const clock: Clock = { now: () => now, sleep: async () => undefined };

async function allocate(name: "one" | "two"): Promise<void> {
  const pool = config.pools.find((one) => one.name === name);
  if (pool === undefined) throw new Error(`no pool ${name}`);
  const places = {
    root: config.root,
    podRoot: config.podRoot,
    deviceInfoDirectory: config.deviceInfoDirectory,
  };
  const allocator = createAllocator({
    pool,
    places,
    allocations: records.allocations,
    clock,
    logger: silentLogger,
  });
  await allocator([`${name}-00000`]);
}

function reconciler(
  options: {
    configNow?: () => DaemonConfig;
    clock?: Clock;
    onList?: () => void;
    observer?: Partial<ReconcileObserver>;
  } = {},
): Reconciler {
  const pools = new Map(
    config.pools.map((pool) => [
      pool.name,
      { config: pool, dataplane: switches[pool.name as "one" | "two"] },
    ]),
  );
  return new Reconciler({
    context: {
      get config() {
        return options.configNow?.() ?? config;
      },
      records,
      pools,
    },
    places: { root: config.root, podRoot: config.podRoot, deviceInfoDirectory: config.deviceInfoDirectory },
    turns: new ContainerTurns(),
    logger: silentLogger,
    observer: { ...unobserved, ...options.observer },
    listPods: async () => {
      options.onList?.();
      return [{ podNamespace: OWN_POD.namespace, podName: OWN_POD.name, containers: [] }];
    },
    ownPod: OWN_POD,
    clock: options.clock ?? clock,
  });
}

/** Attached ports, as the records have them after an ADD. */
async function attach(count: number): Promise<readonly string[]> {
  await allocate("one");
  const [allocation] = records.allocations.list();
  if (allocation === undefined) throw new Error("no allocation");
  const names = Array.from({ length: count }, (_, index) => `net${index}`);
  for (const interfaceName of names) {
    await records.ports.put({
      containerId: "c",
      interfaceName,
      state: "attached",
      allocationId: allocation.id,
      device: "one-00000",
      pool: "one",
      portName: `vhu-${interfaceName}`,
      bridge: "br0",
      switchSocketPath: join(config.root, allocation.id, interfaceName, "vhost.sock"),
      podSocketPath: `/var/run/vhostuser/one/${interfaceName}/vhost.sock`,
      mac: "02:00:00:00:00:01",
      settings: {},
      network: "n",
      netns: "/n",
      podNamespace: "ns",
      podName: "p",
      podUid: "",
      createdAt: now,
    });
  }
  return names.map((name) => `vhu-${name}`).sort();
}

describe("a pass of the reconciler", () => {
  it("reclaims what nobody holds, after two looks", async () => {
    await allocate("one");
    now += 60_000;
    const one = reconciler();
    await one.pass();
    expect(records.allocations.list()).toHaveLength(1);
    await one.pass();
    expect(records.allocations.list()).toEqual([]);
    expect(await listAllocationDirectories(config.root)).toEqual([]);
  });

  it("reclaims what was allocated while the clock was ahead, once it is as old as the others must be", async () => {
    now += 3_600_000;
    await allocate("one");
    now -= 3_600_000;
    const one = reconciler();
    await one.pass();
    now += 9_000;
    await one.pass();
    await one.pass();
    expect(records.allocations.list()).toHaveLength(1);
    now += 1_000;
    await one.pass();
    await one.pass();
    expect(records.allocations.list()).toEqual([]);
  });

  it("removes a directory without a record at the second look, for the clock may just have stepped forward", async () => {
    const id = "a".repeat(16);
    await mkdir(join(config.root, id, "one-00000"), { recursive: true });
    now = Date.now() + 3_600_000;
    const one = reconciler();
    await one.pass();
    expect(await listAllocationDirectories(config.root)).toEqual([id]);
    await one.pass();
    expect(await listAllocationDirectories(config.root)).toEqual([]);
  });

  it("clears every switch that answers of what ports left behind, and counts it", async () => {
    const repaired: string[] = [];
    const failed: unknown[] = [];
    const observer = {
      repaired: (kind: string) => repaired.push(kind),
      itemFailed: (error: unknown) => failed.push(error),
    };
    switches.one.strays = 1;
    switches.one.dead = true;
    switches.two.strays = 2;
    const one = reconciler({ observer });
    await one.pass();
    expect(repaired).toEqual(["stray", "stray"]);
    expect(failed).not.toEqual([]);
    switches.one.dead = false;
    await one.pass();
    expect(repaired).toHaveLength(3);
  });

  it("goes on for one switch while the other is silent, whose allocations it leaves", async () => {
    await allocate("one");
    await allocate("two");
    now += 60_000;
    switches.two.dead = true;
    const one = reconciler();
    await one.pass();
    await one.pass();
    expect(records.allocations.list().map(({ pool }) => pool)).toEqual(["two"]);
    switches.two.dead = false;
    await one.pass();
    await one.pass();
    expect(records.allocations.list()).toEqual([]);
  });

  it("removes a port whose owner the switch does not tell only when nobody uses its directory", async () => {
    const allocationId = "0123456789abcdef";
    const directory = join(config.root, allocationId, "net1");
    await mkdir(directory, { recursive: true });
    const owner = {
      node: "n1",
      podNamespace: "",
      podName: "",
      podUid: "",
      containerId: "",
      network: "",
      mac: "",
    };
    const unknown = { ...owner, interfaceName: "net1", allocationId };
    const socketPath = join(directory, "vhost.sock");
    const port = {
      name: "vhu1",
      bridge: "br0",
      socketPath,
      owner: unknown,
      link: "down",
      connected: false,
    } as const;
    switches.one.ports.set(port.name, port);
    const one = reconciler();
    now = Date.now() + 60_000;
    await writeFile(socketPath, "");
    await one.pass();
    expect([...switches.one.ports.keys()]).toEqual(["vhu1"]);
    await rm(socketPath);
    await one.pass();
    expect([...switches.one.ports.keys()]).toEqual([]);

    switches.one.ports.set(port.name, { ...port, connected: true });
    await rm(join(config.root, allocationId), { recursive: true, force: true });
    await one.pass();
    expect([...switches.one.ports.keys()]).toEqual(["vhu1"]);
    switches.one.ports.set(port.name, port);
    await one.pass();
    expect([...switches.one.ports.keys()]).toEqual([]);
  });

  it("comes as often as the configuration says by now", async () => {
    let interval = 300;
    let passes = 0;
    let slept = 0;
    const looping = reconciler({
      configNow: () => ({ ...config, reclaim: { ...config.reclaim, intervalSeconds: interval } }),
      onList: () => {
        passes += 1;
      },
      clock: {
        now: () => now,
        sleep: async (ms) => {
          slept += ms;
          // Changed while it rests: it must not go on resting for what was asked before.
          if (slept === 5_000) interval = 10;
          if (slept >= 60_000) await new Promise(() => undefined);
          await new Promise((resolve) => setImmediate(resolve));
        },
      },
    });
    looping.start();
    await expect.poll(() => slept).toBeGreaterThanOrEqual(60_000);
    expect(passes).toBe(6);
  });
});

describe("a reconciler that is woken", () => {
  it("restores all ports at once, again until the switch has its bridge, and reclaims nothing", async () => {
    const names = await attach(40);
    let lists = 0;
    const pauses: number[] = [];
    const looping = reconciler({
      onList: () => {
        lists += 1;
      },
      clock: {
        now: () => now,
        sleep: async (ms, signal) => {
          pauses.push(ms);
          if (pauses.length === 5) switches.one.bridges.add("br0");
          if (ms !== 1_000 || pauses.length > 1) return;
          // The rest between two passes ends only when somebody wakes the reconciler.
          await new Promise((_, reject) => signal?.addEventListener("abort", reject, { once: true }));
        },
      },
    });
    looping.start();
    await expect.poll(() => switches.one.ports.size).toBe(40);
    await expect.poll(() => pauses).toEqual([1_000]);
    // It restarts, without anything for a while.
    switches.one.ports.clear();
    switches.one.bridges.clear();
    const listsBefore = lists;
    looping.wake();
    await expect.poll(() => [...switches.one.ports.keys()].sort()).toEqual(names);
    expect(pauses.slice(0, 5)).toEqual([1_000, 100, 200, 400, 400]);
    expect(listsBefore).toBe(1);
    await looping.close();
  });

  /** A reconciler that rests after its first pass until it is disturbed. */
  async function resting(
    observer: Partial<ReconcileObserver> = {},
  ): Promise<{ loop: Reconciler; lists: () => number }> {
    let lists = 0;
    let rests = 0;
    const loop = reconciler({
      observer,
      onList: () => {
        lists += 1;
      },
      clock: {
        now: () => now,
        sleep: async (ms, signal) => {
          if (ms !== 1_000) return;
          rests += 1;
          await new Promise((_, reject) => {
            if (signal?.aborted) reject(signal.reason);
            signal?.addEventListener("abort", reject, { once: true });
          });
        },
      },
    });
    loop.start();
    await expect.poll(() => rests).toBe(1);
    return { loop, lists: () => lists };
  }

  it("looks at ports that somebody changed at once, at no others, and takes no pass for it", async () => {
    const [one = "", two = ""] = await attach(2);
    const repaired: string[] = [];
    const { loop, lists } = await resting({ repaired: (kind) => repaired.push(kind) });
    expect(repaired.splice(0)).toEqual(["port", "port"]);
    switches.one.ports.clear();
    loop.disturbed([one]);
    await expect.poll(() => [...switches.one.ports.keys()]).toEqual([one]);
    loop.disturbed("all");
    await expect.poll(() => [...switches.one.ports.keys()].sort()).toEqual([one, two]);
    expect(repaired).toEqual(["port", "port"]);
    expect(lists()).toBe(1);
    await loop.close();
  });

  it("restores a device-info file and an allocation's directory that somebody removes, as soon as that is seen", async () => {
    await allocate("one");
    now += 60_000;
    const { loop, lists } = await resting();
    const [allocation] = records.allocations.list();
    if (allocation === undefined) throw new Error("no allocation");
    const file = join(config.deviceInfoDirectory, "dp", "vhostuser-one-one-00000-device.json");
    const before = await readFile(file, "utf8");
    await rm(file);
    await expect.poll(() => readFile(file, "utf8").catch(() => "")).toBe(before);
    await rm(join(config.root, allocation.id), { recursive: true });
    await expect.poll(() => readdir(join(config.root, allocation.id)).catch(() => [])).toEqual(["one-00000"]);
    expect(lists()).toBe(1);
    await loop.close();
  });
});
