import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MemoryDataplane } from "../../test/stand-in/dataplane/memory-dataplane.ts";
import { StandInKubelet, type StandInKubeletOptions } from "../../test/stand-in/kubelet/kubelet.ts";
import { type ListedDevice, PluginClient } from "../../test/stand-in/kubelet/plugin-client.ts";
import { MemoryAllocations } from "../../test/stand-in/records/memory-allocations.ts";
import { parseConfig } from "../config/load.ts";
import type { PoolConfig } from "../config/schema.ts";
import type { Readiness } from "../dataplane/dataplane.ts";
import { loadService } from "../grpc/load-service.ts";
import { silentLogger } from "../logging/logger.ts";
import type { Clock } from "../sync/clock.ts";
import { DeviceUses } from "./device-uses.ts";
import { NodePools } from "./node-pools.ts";
import { PoolPlugins } from "./pools.ts";

/**
 * Sleeps take a hundredth of their time, so that a look at the switch comes every 20 ms. What passes is what the looks at
 * a switch that is not well sleep: a machine that stands still makes no failure longer, and no registration older.
 */
function quickClock(): Clock {
  let now = 0;
  return {
    now: () => now,
    monotonic: () => now,
    sleep: async (ms, signal) => {
      await delay(ms / 100, undefined, signal === undefined ? {} : { signal });
      if (ms === 2_000) now += ms;
    },
  };
}

let root: string;
let kubelet: StandInKubelet;
let allocations: MemoryAllocations;
let uses: DeviceUses;
let pools: NodePools;
let plugins: PoolPlugins;
/** By database socket. */
let switches: Map<string, MemoryDataplane>;
let logged: { readonly msg: string; readonly [field: string]: unknown }[];
const poolLogger = pino({}, { write: (line) => logged.push(JSON.parse(line)) });

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "pools-"));
  allocations = new MemoryAllocations();
  switches = new Map();
  logged = [];
});
afterEach(async () => {
  await plugins.close();
  await pools.close();
  uses.close();
  await kubelet.stop();
  await rm(root, { recursive: true, force: true });
});

type PoolText = { readonly name: string } & Readonly<Record<string, unknown>>;

function configured(...texts: readonly PoolText[]): readonly PoolConfig[] {
  const filled = texts.map(({ database = "/db.sock", bridge = "br0", ...text }) => ({
    resource: `vhostuser/${text.name}`,
    capacity: 4,
    dataplane: { type: "ovs-dpdk", database, bridge },
    ...text,
  }));
  return parseConfig(JSON.stringify({ node: "n", pools: filled }), "c.yaml").pools;
}

async function start(
  texts: readonly PoolText[],
  options: Omit<StandInKubeletOptions, "root"> & {
    readonly prepare?: (dataplane: MemoryDataplane) => void;
    /** Called for a pool's plugin before it starts; one that throws keeps it from starting. */
    readonly beforePlugin?: (pool: string) => void;
  } = {},
): Promise<void> {
  kubelet = await StandInKubelet.start({ root, ...options });
  uses = new DeviceUses(allocations);
  const initial = configured(...texts);
  pools = new NodePools({
    pools: initial,
    open: (where) => {
      const dataplane = new MemoryDataplane();
      options.prepare?.(dataplane);
      switches.set(where.type === "ovs-dpdk" ? where.database : where.apiSocket, dataplane);
      return dataplane;
    },
    uses,
    logger: poolLogger,
  });
  plugins = new PoolPlugins({
    pools,
    kubelet: kubelet.paths,
    uses,
    allocator: (pool) => {
      options.beforePlugin?.(pool().name);
      return async (devices) => {
        const { id } = allocations.put({ devices, resource: pool().resource });
        return {
          envs: { ALLOCATION: id, OWNER: String(pool().directory.owner) },
          mounts: [],
          annotations: {},
        };
      };
    },
    clock: quickClock(),
    logger: silentLogger,
  });
  await plugins.apply(initial);
}

async function admit(name: string, resource: string, count: number): Promise<readonly string[]> {
  const containers = [{ name: "c", resources: { [resource]: count } }];
  const admission = await kubelet.admitPod({ namespace: "ns", name, containers });
  if (admission.phase === "Failed") throw new Error(admission.message);
  return [...(admission.containers[0]?.deviceIds[resource] ?? [])].sort();
}

/** The pod is over and its allocations are reclaimed. */
function end(name: string): void {
  const ids = kubelet.containers({ namespace: "ns", name }).map(({ envs }) => envs.ALLOCATION);
  kubelet.removePod({ namespace: "ns", name });
  for (const record of allocations.list()) if (ids.includes(record.id)) allocations.remove(record);
}

async function until(condition: () => boolean, what: string): Promise<void> {
  const limit = performance.now() + 30_000;
  while (!condition()) {
    if (performance.now() > limit) throw new Error(`not within 30 s: ${what}`);
    await delay(5);
  }
}

/** Reads a plugin's device list as a second kubelet would. */
async function listen(resource: string): Promise<{ lists: (readonly ListedDevice[])[]; close: () => void }> {
  const endpoint = kubelet.registrations.findLast((attempt) => attempt.resource === resource)?.endpoint ?? "";
  const client = await PluginClient.connect(join(kubelet.paths.pluginDirectory, endpoint), 30_000);
  const lists: (readonly ListedDevice[])[] = [];
  void client.listAndWatch((list) => lists.push(list));
  await until(() => lists.length > 0, "a first list");
  return { lists, close: () => client.close() };
}

const registrations = (resource: string) =>
  kubelet.registrations.filter((attempt) => attempt.resource === resource).length;
const [A, B] = ["vhostuser/a", "vhostuser/b"] as const;

describe("the pools' plugins", () => {
  it("are healthy from their first list on where the switch answers", async () => {
    await start([{ name: "a" }]);
    await kubelet.waitForAllocatable(A, 4);
    const { lists, close } = await listen(A);
    close();
    expect(lists[0]?.every(({ health }) => health === "Healthy")).toBe(true);
  });

  it("register though the switch hangs", async () => {
    const answered = Promise.withResolvers<Readiness>();
    await start([{ name: "a" }], {
      prepare: (dataplane) => (dataplane.probe = () => answered.promise),
    });
    await until(() => kubelet.capacity(A)?.capacity === 4, "a list");
    expect(kubelet.capacity(A)?.allocatable).toBe(0);
    answered.resolve({ ready: false, reason: "too late" });
  });

  it("take a new capacity, owner and bridge without a registration anew", async () => {
    await start([{ name: "a" }, { name: "b" }]);
    await kubelet.waitForAllocatable(A, 4);
    await admit("one", A, 2);
    await plugins.apply(configured({ name: "a", capacity: 6, directory: { owner: 1_000 } }, { name: "b" }));
    await kubelet.waitForAllocatable(A, 6);
    await admit("two", A, 1);
    expect(kubelet.containers({ namespace: "ns", name: "two" })[0]?.envs.OWNER).toBe("1000");
    await plugins.apply(configured({ name: "a", bridge: "br9" }, { name: "b" }));
    await kubelet.waitForAllocatable(A, 0);
    expect(pools.byName.get("a")?.config.dataplane.bridge).toBe("br9");
    switches.get("/db.sock")?.bridges.add("br9");
    await kubelet.waitForAllocatable(A, 4);
    expect([registrations(A), registrations(B)]).toEqual([1, 1]);
    expect(kubelet.capacity(B)?.allocatable).toBe(4);
  });

  it("shrink below what is in use: that stays until it is freed", async () => {
    await start([{ name: "a", capacity: 4 }]);
    await kubelet.waitForAllocatable(A, 4);
    expect(await admit("big", A, 3)).toHaveLength(3);
    await plugins.apply(configured({ name: "a", capacity: 1 }));
    await until(() => kubelet.capacity(A)?.capacity === 3, "three devices");
    await expect(admit("late", A, 1)).rejects.toThrow("Available: 0");
    end("big");
    await until(() => kubelet.capacity(A)?.capacity === 1, "one device");
    expect(await admit("small", A, 1)).toEqual(["a-00000"]);
  });

  it("come and go with their pools, and a pool that is gone is looked after until its pods are", async () => {
    await start([{ name: "a" }, { name: "b", database: "/other.sock" }]);
    await kubelet.waitForAllocatable(B, 4);
    await admit("pod", B, 1);
    await plugins.apply(configured({ name: "a" }, { name: "c" }));
    await kubelet.waitForAllocatable("vhostuser/c", 4);
    await kubelet.waitForAllocatable(B, 0);
    const sockets = (await readdir(kubelet.paths.pluginDirectory)).filter((file) => file.startsWith("vhu-"));
    expect(sockets.map((file) => file.split("-")[1]).sort()).toEqual(["a", "c"]);
    expect([...pools.byName.keys()].sort()).toEqual(["a", "b", "c"]);
    const other = switches.get("/other.sock");
    expect(other?.closed).toBe(false);
    end("pod");
    expect([...pools.byName.keys()].sort()).toEqual(["a", "c"]);
    await until(() => other?.closed === true, "the switch that nobody needs is let go");
    expect(switches.get("/db.sock")?.closed).toBe(false);
    expect(registrations(A)).toBe(1);
  });

  it("come back for a pool that is put back while pods still hold its devices", async () => {
    await start([{ name: "a" }, { name: "b" }]);
    await kubelet.waitForAllocatable(B, 4);
    await admit("pod", B, 1);
    await plugins.apply(configured({ name: "a" }));
    await plugins.apply(configured({ name: "a" }, { name: "b", capacity: 1 }));
    await until(() => kubelet.capacity(B)?.allocatable === 1, "the one in use");
    end("pod");
    expect([...pools.byName.keys()]).toEqual(["a", "b"]);
  });

  it("keep the old switch for a pool that is put back with another one, until its last device is freed", async () => {
    await start([{ name: "a" }, { name: "b", database: "/one.sock" }]);
    await kubelet.waitForAllocatable(B, 4);
    await admit("pod", B, 1);
    const one = switches.get("/one.sock");
    await plugins.apply(configured({ name: "a" }));
    const back = configured({ name: "a" }, { name: "b", database: "/two.sock", bridge: "br2", capacity: 2 });
    await plugins.apply(back);
    await plugins.apply(back);
    expect(pools.byName.get("b")?.dataplane).toBe(one);
    expect(pools.byName.get("b")?.config).toMatchObject({
      capacity: 2,
      dataplane: { database: "/one.sock", bridge: "br0" },
    });
    await kubelet.waitForAllocatable(B, 2);
    expect([one?.closed, switches.has("/two.sock")]).toEqual([false, false]);
    expect(logged.filter(({ msg }) => msg.includes("other switch waits"))).toMatchObject([
      { pool: "b", keys: ["pools.b.dataplane"], reason: "pods have ports in the old switch" },
    ]);
    end("pod");
    const two = switches.get("/two.sock");
    expect(pools.byName.get("b")).toEqual({ config: back[1], dataplane: two });
    await until(() => one?.closed === true, "the old switch is let go");
    // Its plugin looks at the new one from now on, which has no bridge of that name yet.
    await kubelet.waitForAllocatable(B, 0);
    two?.bridges.add("br2");
    await kubelet.waitForAllocatable(B, 2);
  });

  it("judge the other switch by itself once they are at it, though its bridge has the same name", async () => {
    await start([{ name: "b", database: "/one.sock" }], {
      prepare: (dataplane) => (dataplane.dead = switches.size > 0),
    });
    await kubelet.waitForAllocatable(B, 4);
    await admit("pod", B, 1);
    // As a reload goes that removes the pool and puts it back, of which the plugin sees only the end.
    pools.replace([]);
    pools.replace(configured({ name: "b", database: "/two.sock" }));
    const { lists, close } = await listen(B);
    end("pod");
    const two = switches.get("/two.sock");
    if (two === undefined) throw new Error("no other switch");
    const { probe } = two;
    const over = Promise.withResolvers<Readiness>();
    let probes = 0;
    // The past of a healthy switch would buy it a third.
    two.probe = (bridge) => (++probes < 3 ? probe.call(two, bridge) : over.promise);
    await until(() => lists.at(-1)?.every(({ health }) => health === "Unhealthy") === true, "unhealthy");
    over.resolve({ ready: false, reason: "too late" });
    close();
  });

  it("forget the other switch when the old one is configured again, or the pool is gone", async () => {
    await start([{ name: "a" }, { name: "b", database: "/one.sock" }]);
    await kubelet.waitForAllocatable(B, 4);
    await admit("pod", B, 1);
    const one = pools.byName.get("b")?.dataplane;
    const other = configured({ name: "a" }, { name: "b", database: "/two.sock" });
    await plugins.apply(other);
    await plugins.apply(configured({ name: "a" }, { name: "b", database: "/one.sock", capacity: 5 }));
    expect(pools.byName.get("b")).toMatchObject({ dataplane: one, config: { capacity: 5 } });
    await plugins.apply(other);
    await plugins.apply(configured({ name: "a" }));
    end("pod");
    expect([...pools.byName.keys()]).toEqual(["a"]);
    expect(switches.has("/two.sock")).toBe(false);
  });

  it("start without those that cannot be, which are named and tried again", async () => {
    let isBroken = true;
    await start([{ name: "a" }], {
      beforePlugin: (pool) => {
        if (pool !== "a" && isBroken) throw new Error(`${pool} is broken`);
      },
    });
    const wanted = configured({ name: "b" }, { name: "a" }, { name: "c" });
    await expect(plugins.apply(wanted)).rejects.toThrow("b is broken; c is broken (pool b, c)");
    await kubelet.waitForAllocatable(A, 4);
    expect([...plugins.byPool.keys()]).toEqual(["a"]);
    isBroken = false;
    await plugins.apply(wanted);
    await kubelet.waitForAllocatable(B, 4);
    await kubelet.waitForAllocatable("vhostuser/c", 4);
    expect(registrations(A)).toBe(1);
  });

  it("swap their resources, and no device that a pod holds is given to another", async () => {
    await start([{ name: "a" }, { name: "b" }]);
    await kubelet.waitForAllocatable(A, 4);
    const [held] = await admit("pod", A, 1);
    await plugins.apply(configured({ name: "a", resource: B }, { name: "b", resource: A }));
    await until(() => kubelet.capacity(B)?.allocatable === 3, "three devices");
    expect(await admit("other", B, 3)).not.toContain(held);
    end("pod");
    await until(() => kubelet.capacity(B)?.allocatable === 4, "all four");
  });

  it("stay healthy through a switch's restarts, however many, and send nothing for them", async () => {
    await start([{ name: "a" }]);
    await kubelet.waitForAllocatable(A, 4);
    const { lists, close } = await listen(A);
    const dataplane = switches.get("/db.sock");
    if (dataplane === undefined) throw new Error("no switch");
    const { probe } = dataplane;
    let probes = 0;
    // Three failures in a row, six seconds of its time, between two good ones.
    dataplane.probe = (bridge) =>
      probes++ % 4 === 0
        ? probe.call(dataplane, bridge)
        : Promise.resolve({ ready: false, reason: "restarting" });
    await until(() => probes > 80, "eighty looks");
    await plugins.apply(configured({ name: "a", capacity: 5 }));
    await until(() => lists.at(-1)?.length === 5, "the list of another capacity");
    close();
    expect(lists.map((list) => list.length)).toEqual([4, 5]);
    expect(lists.flat().every(({ health }) => health === "Healthy")).toBe(true);
  });

  it("become unhealthy once for a switch that is dead, and healthy once when it is back", async () => {
    await start([{ name: "a" }]);
    await kubelet.waitForAllocatable(A, 4);
    const { lists, close } = await listen(A);
    const dataplane = switches.get("/db.sock");
    if (dataplane === undefined) throw new Error("no switch");
    dataplane.dead = true;
    await kubelet.waitForAllocatable(A, 0);
    dataplane.dead = false;
    await kubelet.waitForAllocatable(A, 4);
    // Kubelet's stream is another one, and may be ahead.
    await until(() => lists.length >= 3, "the third list");
    close();
    expect(lists.map((list) => list[0]?.health)).toEqual(["Healthy", "Unhealthy", "Healthy"]);
    expect(registrations(A)).toBe(1);
  });

  it("tell kubelet the NUMA node of the bridge's uplinks, or the configured one, or none", async () => {
    await start([{ name: "a" }, { name: "b", numaNode: 3 }, { name: "c", numaNode: "none" }], {
      prepare: (dataplane) => dataplane.numaNodes.set("br0", 1),
      topologyPolicy: "single-numa-node",
    });
    const topology = async (name: string) => {
      await kubelet.waitForAllocatable(`vhostuser/${name}`, 4);
      const { lists, close } = await listen(`vhostuser/${name}`);
      close();
      return lists[0]?.map((device) => device.topology?.nodes.map(({ ID }) => ID));
    };
    expect(await topology("a")).toEqual([[1], [1], [1], [1]]);
    expect(await topology("b")).toEqual([[3], [3], [3], [3]]);
    expect(await topology("c")).toEqual([undefined, undefined, undefined, undefined]);
    expect(await admit("pod", A, 2)).toHaveLength(2);
    await plugins.apply(configured({ name: "a", numaNode: 0 }));
    const { lists, close } = await listen(A);
    await until(() => lists.at(-1)?.[0]?.topology?.nodes[0]?.ID === 0, "another node");
    close();
  });

  it("give the device that was free for longest", async () => {
    await start([{ name: "a", capacity: 3 }]);
    await kubelet.waitForAllocatable(A, 3);
    const given: string[] = [];
    for (let round = 0; round < 6; round++) {
      given.push(...(await admit(`pod-${round}`, A, 1)));
      end(`pod-${round}`);
    }
    expect(given.map((id) => Number(id.slice(-1)))).toEqual([0, 1, 2, 0, 1, 2]);
  });

  it("never give a device whose allocation is not reclaimed yet while there is another", async () => {
    await start([{ name: "a", capacity: 3 }]);
    await kubelet.waitForAllocatable(A, 3);
    const [first] = await admit("gone", A, 1);
    kubelet.removePod({ namespace: "ns", name: "gone" });
    expect(await admit("next", A, 2)).not.toContain(first);
  });

  it("send as many lists for a thousand devices that are allocated and freed as for none", async () => {
    await start([{ name: "a", capacity: 1_000 }]);
    await kubelet.waitForAllocatable(A, 1_000);
    const { lists, close } = await listen(A);
    for (let pod = 0; pod < 20; pod++) await admit(`pod-${pod}`, A, 50);
    expect(kubelet.allocateCalls.flatMap(({ ids }) => ids)).toHaveLength(1_000);
    for (let pod = 0; pod < 20; pod++) end(`pod-${pod}`);
    await plugins.apply(configured({ name: "a", capacity: 999 }));
    await until(() => lists.at(-1)?.length === 999, "the list of another capacity");
    close();
    const { definition } = loadService("kubelet/device-plugin-v1beta1.proto", "v1beta1.DevicePlugin");
    const bytes = lists.map((devices) => definition.ListAndWatch?.responseSerialize({ devices }).length ?? 0);
    expect(bytes).toHaveLength(2);
    // Id and health, some twenty bytes, with their protobuf tags.
    expect(bytes[0]).toBeLessThan(1_000 * 40);
  });
});
