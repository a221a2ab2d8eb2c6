import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { waitUntil } from "../../test/machine/wait-until.ts";
import { poolsByName } from "../../test/stand-in/config/pools-by-name.ts";
import { MemoryDataplane } from "../../test/stand-in/dataplane/memory-dataplane.ts";
import { StandInKubelet, type StandInKubeletOptions } from "../../test/stand-in/kubelet/kubelet.ts";
import { type ListedDevice, PluginClient } from "../../test/stand-in/kubelet/plugin-client.ts";
import { MemoryAllocations } from "../../test/stand-in/records/memory-allocations.ts";
import { parseConfig } from "../config/load.ts";
import type { Readiness } from "../dataplane/dataplane.ts";
import { loadService } from "../grpc/load-service.ts";
import { silentLogger } from "../logging/logger.ts";
import { DeviceUses } from "../pools/capacity.ts";
import { Pools } from "../pools/pools.ts";
import type { Clock } from "../sync/clock.ts";
import { type PoolPlugin, startPoolPlugin } from "./pool-plugins.ts";

/**
 * Sleeps take a hundredth of their time, so that the switch is probed every 20 ms. Time passes only with the sleeps
 * between probes of a switch that is not well: a slow machine makes no failure longer, and no registration older.
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
/** The running daemon's parts. */
let uses: DeviceUses;
let pools: Pools;
let plugins: readonly PoolPlugin[];
/** By database socket; a switch outlives the daemon. */
let switches: Map<string, MemoryDataplane>;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "pools-"));
  allocations = new MemoryAllocations();
  switches = new Map();
});
afterEach(async () => {
  await stop();
  await kubelet.stop();
  await rm(root, { recursive: true, force: true });
});

type PoolText = { readonly name: string } & Readonly<Record<string, unknown>>;

function switchAt(database: string): MemoryDataplane {
  const dataplane = switches.get(database) ?? new MemoryDataplane();
  switches.set(database, dataplane);
  return dataplane;
}

async function start(
  texts: readonly PoolText[],
  options: Omit<StandInKubeletOptions, "root"> = {},
): Promise<void> {
  kubelet = await StandInKubelet.start({ root, ...options });
  await startDaemon(texts);
}

/** The daemon's part in this: pools and their plugins. */
async function startDaemon(texts: readonly PoolText[]): Promise<void> {
  const filled = texts.map(({ database = "/db.sock", bridge = "br0", ...text }) => ({
    resource: `vhostuser/${text.name}`,
    capacity: 4,
    dataplane: { type: "ovs-dpdk", database, bridge },
    ...text,
  }));
  const config = parseConfig(JSON.stringify({ node: "n", pools: poolsByName(...filled) }), "c.yaml");
  uses = new DeviceUses(allocations);
  pools = new Pools({
    pools: config.pools,
    allocations,
    open: (where) => switchAt(where.type === "ovs-dpdk" ? where.database : where.apiSocket),
    logger: silentLogger,
  });
  plugins = await Promise.all(
    [...pools.configured.values()].map((pool) =>
      startPoolPlugin({
        rootProblem: async () => undefined,
        ...{ pool, kubelet: kubelet.paths, uses, clock: quickClock(), logger: silentLogger },
        allocate: async (devices) => {
          const { id } = allocations.put({ devices, resource: pool.config.resource });
          return { envs: { ALLOCATION: id, OWNER: String(pool.config.directory.owner) }, mounts: [] };
        },
      }),
    ),
  );
}

async function stop(): Promise<void> {
  await Promise.all(plugins.map((plugin) => plugin.close()));
  await pools.close();
  uses.close();
}

/** As the DaemonSet is rolled with another configuration. */
async function roll(...texts: readonly PoolText[]): Promise<void> {
  await stop();
  await startDaemon(texts);
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

const until = (condition: () => boolean, what: string) => waitUntil(condition, { what });

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
    switchAt("/db.sock").probe = () => answered.promise;
    await start([{ name: "a" }]);
    await until(() => kubelet.capacity(A)?.capacity === 4, "a list");
    expect(kubelet.capacity(A)?.allocatable).toBe(0);
    answered.resolve({ ready: false, reason: "too late" });
  });

  it("offer what is in use beyond a lowered capacity until it is freed", async () => {
    await start([{ name: "a", capacity: 4 }]);
    await kubelet.waitForAllocatable(A, 4);
    expect(await admit("big", A, 3)).toHaveLength(3);
    await roll({ name: "a", capacity: 1 });
    await until(() => kubelet.capacity(A)?.capacity === 3, "three devices");
    await expect(admit("late", A, 1)).rejects.toThrow("Available: 0");
    end("big");
    await until(() => kubelet.capacity(A)?.capacity === 1, "one device");
    expect(await admit("small", A, 1)).toEqual(["a-00000"]);
  });

  it("have the new capacity, owner and bridge after a roll, and pods keep their devices", async () => {
    await start([{ name: "a" }, { name: "b" }]);
    await kubelet.waitForAllocatable(A, 4);
    const held = await admit("one", A, 2);
    switchAt("/db.sock").bridges.add("br9");
    await roll({ name: "a", capacity: 6, bridge: "br9", directory: { owner: 1_000 } }, { name: "b" });
    await kubelet.waitForAllocatable(A, 6);
    expect(await admit("two", A, 4)).not.toContain(held[0]);
    expect(kubelet.containers({ namespace: "ns", name: "two" })[0]?.envs.OWNER).toBe("1000");
    expect(pools.configured.get("a")?.config.dataplane.bridge).toBe("br9");
  });

  it("come and go with their pools", async () => {
    await start([{ name: "a" }, { name: "b" }]);
    await kubelet.waitForAllocatable(B, 4);
    const [held] = await admit("pod", B, 1);
    await roll({ name: "a" }, { name: "c" });
    await kubelet.waitForAllocatable("vhostuser/c", 4);
    await kubelet.waitForAllocatable(B, 0);
    await roll({ name: "a" }, { name: "b", capacity: 2 });
    await kubelet.waitForAllocatable(B, 2);
    expect(await admit("other", B, 1)).not.toEqual([held]);
  });

  it("swap their resources, and no device that a pod holds is given to another", async () => {
    await start([{ name: "a" }, { name: "b" }]);
    await kubelet.waitForAllocatable(A, 4);
    const [held] = await admit("pod", A, 1);
    await roll({ name: "a", resource: B }, { name: "b", resource: A });
    await until(() => kubelet.capacity(B)?.allocatable === 3, "three devices");
    expect(await admit("other", B, 3)).not.toContain(held);
    end("pod");
    await until(() => kubelet.capacity(B)?.allocatable === 4, "all four");
  });

  it("stay healthy through a switch's restarts, however many, and send nothing for them", async () => {
    await start([{ name: "a" }]);
    await kubelet.waitForAllocatable(A, 4);
    const { lists, close } = await listen(A);
    const dataplane = switchAt("/db.sock");
    const { probe } = dataplane;
    let probes = 0;
    // Three failures in a row, six seconds of its time, between two good ones.
    dataplane.probe = (bridge) =>
      probes++ % 4 === 0
        ? probe.call(dataplane, bridge)
        : Promise.resolve({ ready: false, reason: "restarting" });
    await until(() => probes > 80, "eighty probes");
    dataplane.probe = probe;
    dataplane.dead = true;
    await until(() => lists.at(-1)?.[0]?.health === "Unhealthy", "the list of a dead switch");
    close();
    expect(lists.map((list) => list[0]?.health)).toEqual(["Healthy", "Unhealthy"]);
  });

  it("become unhealthy once for a switch that is dead, and healthy once when it is back", async () => {
    await start([{ name: "a" }]);
    await kubelet.waitForAllocatable(A, 4);
    const { lists, close } = await listen(A);
    const dataplane = switchAt("/db.sock");
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

  it("report to kubelet the NUMA node of the bridge's uplinks, or the configured one, or none", async () => {
    switchAt("/db.sock").uplinks.set("br0", { numaNode: 1 });
    await start([{ name: "a" }, { name: "b", numaNode: 3 }, { name: "c", numaNode: "none" }], {
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
    switchAt("/db.sock").dead = true;
    await until(() => lists.length > 1, "the list of unhealthy devices");
    close();
    const { definition } = loadService("kubelet/device-plugin-v1beta1.proto", "v1beta1.DevicePlugin");
    const bytes = lists.map((devices) => definition.ListAndWatch?.responseSerialize({ devices }).length ?? 0);
    expect(bytes).toHaveLength(2);
    // Id and health, some twenty bytes, with their protobuf tags.
    expect(bytes[0]).toBeLessThan(1_000 * 40);
  });
});
