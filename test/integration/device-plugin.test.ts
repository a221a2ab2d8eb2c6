import { existsSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { HEALTH_RULES } from "../../src/pools/pool-health.ts";
import { type OvsDpdk, startOvsDpdk } from "../lab/ovs-dpdk.ts";
import type { Child } from "../machine/child.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { DevicePluginNode, type PoolText } from "./device-plugin-node.ts";

const [A, B, DATAPLANE] = ["vhostuser/a", "vhostuser/b", "vhostuser/dataplane"] as const;
const POOL_A = { name: "a" };
const POOL_B = { name: "b", directory: { owner: 1_001, group: 1_002, mode: "2750" } };

let run: LabRun;
let ovs: OvsDpdk;
let node: DevicePluginNode;
let daemon: Child;
/** Whether the daemon runs with other pools than the usual. */
let isOther = false;
let pods = 0;
const running = new Set<string>();

beforeAll(async () => {
  run = await openLabRun();
  ovs = await startOvsDpdk(run, { directory: join(run.directory, "ovs"), bridges: ["br0"] });
  node = await DevicePluginNode.start(run, ovs.databaseSocket);
  await node.configure(POOL_A, POOL_B);
  daemon = await node.startDaemon();
});
afterAll(() => run?.close());
beforeEach(async () => {
  await Promise.all([...running].map(endPod));
  if (isOther) await roll(POOL_A, POOL_B);
  await node.kubelet.waitForAllocatable(A, 4);
  await node.kubelet.waitForAllocatable(B, 4);
});

/** The DaemonSet is rolled with these pools: the daemon ends, and one with the new configuration starts. */
async function roll(...pools: readonly PoolText[]): Promise<void> {
  await node.configure(...pools);
  await daemon.stop("SIGTERM");
  daemon = await node.startDaemon();
  isOther = pools.length !== 2 || pools[0] !== POOL_A || pools[1] !== POOL_B;
}

/** A pod with a device of each pool; its directory then contains a file, as it would a socket. */
async function startPod(resources: Readonly<Record<string, number>> = { [A]: 1, [B]: 1 }): Promise<string> {
  const name = `pod-${pods++}`;
  const admission = await node.kubelet.admitPod({
    namespace: "ns",
    name,
    containers: [{ name: "c", resources }],
  });
  if (admission.phase === "Failed") throw new Error(admission.message);
  running.add(name);
  for (const [index, { hostPath }] of (await node.mounts(name)).entries()) {
    await writeFile(join(hostPath, `left-by-the-test-${index}`), name);
  }
  return name;
}

/** The pod is over, and the daemon has noticed. */
async function endPod(name: string): Promise<void> {
  const paths = (await node.mounts(name)).map(({ hostPath }) => hostPath);
  node.kubelet.removePod({ namespace: "ns", name });
  running.delete(name);
  await waitUntil(async () => !paths.some((path) => existsSync(path)), {
    what: `the directories of ${name} are reclaimed`,
  });
}

const registrations = (resource: string) =>
  node.kubelet.registrations.filter((attempt) => attempt.resource === resource).length;

/** Waits until kubelet has had a registration of every resource that is newer than `before`. */
async function registeredAgain(before: Readonly<Record<string, number>>): Promise<void> {
  await waitUntil(
    async () => Object.entries(before).every(([resource, count]) => registrations(resource) > count),
    { what: "all resources are registered again" },
  );
  for (const resource of [A, B]) await node.kubelet.waitForAllocatable(resource, 4);
  await node.kubelet.waitForAllocatable(DATAPLANE, 1);
}
const counts = () => ({
  [A]: registrations(A),
  [B]: registrations(B),
  [DATAPLANE]: registrations(DATAPLANE),
});

describe("pods that hold devices", () => {
  it("got directories with the owner, group and mode of their pool", async () => {
    const pod = await startPod();
    const tree = await node.tree(pod);
    const below = (pool: string) =>
      tree.filter((line) => line.includes(`/${pool}-0000`)).map((line) => line.split(" ")[1]);
    expect([below("a"), below("b")]).toEqual([["107:107"], ["1001:1002"]]);
    expect(tree.filter((line) => / 2770 /.test(line) && line.includes("/a-0000"))).toHaveLength(1);
    expect(tree.filter((line) => / 2750 /.test(line) && line.includes("/b-0000"))).toHaveLength(1);
  });

  it.each([
    { what: "kubelet restarts and wipes all sockets", disturb: () => node.kubelet.restart({ downMs: 300 }) },
    {
      what: "the daemon is restarted",
      disturb: async () => {
        await daemon.stop("SIGTERM");
        daemon = await node.startDaemon();
      },
    },
    {
      what: "the daemon is killed and started again",
      disturb: async () => {
        await daemon.stop("SIGKILL");
        daemon = await node.startDaemon();
      },
    },
    {
      what: "the daemon is upgraded: the new one starts while the old one ends",
      disturb: async () => {
        const next = await node.startDaemon();
        await daemon.stop("SIGTERM");
        daemon = next;
      },
    },
    {
      what: "the daemon and kubelet restart at the same time",
      disturb: async () => {
        const restart = node.kubelet.restart({ downMs: 100 });
        await daemon.stop("SIGKILL");
        daemon = await node.startDaemon();
        await restart;
      },
    },
  ])("keep exactly what they have when $what", async ({ disturb }) => {
    const pod = await startPod({ [A]: 2, [B]: 1 });
    const [tree, mounts, before] = [await node.tree(pod), await node.mounts(pod), counts()];
    const calls = node.kubelet.allocateCalls.length;
    await disturb();
    await registeredAgain(before);
    expect(await node.mounts(pod)).toEqual(mounts);
    // The very same directories, what the pod put into them included.
    expect(await node.tree(pod)).toEqual(tree);
    expect(node.kubelet.allocateCalls).toHaveLength(calls);
    const held = new Set(devicesOf(pod));
    const other = await startPod();
    expect(devicesOf(other).filter((device) => held.has(device))).toEqual([]);
    expect(await node.tree(pod)).toEqual(tree);
  });

  it("regain them after a reboot: root empty, kubelet's checkpoint naming the old paths", async () => {
    const pod = await startPod({ [A]: 2, [B]: 1 });
    const withoutInode = (tree: readonly string[]) =>
      tree.filter((line) => !line.includes("left-by-the-test")).map((line) => line.replace(/ \d+$/, ""));
    const [tree, mounts, before] = [await node.tree(pod), await node.mounts(pod), counts()];
    await node.reboot(daemon);
    daemon = await node.startDaemon();
    await registeredAgain(before);
    expect((await node.kubelet.readmitPods()).get(`ns/${pod}`)).toMatchObject({ phase: "Running" });
    expect(await node.mounts(pod)).toEqual(mounts);
    expect(withoutInode(await node.tree(pod))).toEqual(withoutInode(tree));
  });
});

const devicesOf = (name: string): readonly string[] =>
  node.kubelet
    .containers({ namespace: "ns", name })
    .flatMap(({ deviceIds }) => Object.values(deviceIds).flat());

describe("a roll of the DaemonSet with another configuration", () => {
  it("adds, changes and removes pools, and pods keep what they have", async () => {
    const pod = await startPod({ [A]: 2, [B]: 1 });
    const tree = await node.tree(pod);

    await roll({ ...POOL_A, capacity: 1 }, { name: "c", capacity: 2 });
    await node.kubelet.waitForAllocatable("vhostuser/c", 2);
    await node.kubelet.waitForAllocatable(A, 2);
    await node.kubelet.waitForAllocatable(B, 0);
    const refused = await node.kubelet.admitPod({
      namespace: "ns",
      name: "refused",
      containers: [{ name: "c", resources: { [A]: 1 } }],
    });
    expect(refused).toMatchObject({ phase: "Failed", message: expect.stringContaining("Available: 0") });
    const other = await startPod({ "vhostuser/c": 1 });
    expect(await node.tree(pod)).toEqual(tree);
    await endPod(other);

    await roll(POOL_A, POOL_B);
    await node.kubelet.waitForAllocatable(A, 4);
    await node.kubelet.waitForAllocatable(B, 4);
    expect(await node.tree(pod)).toEqual(tree);
  });

  it("gives new pods the new owner, and leaves running ones theirs", async () => {
    const old = await startPod({ [A]: 1 });
    const tree = await node.tree(old);
    await roll({ ...POOL_A, directory: { owner: 2_000, group: 2_001, mode: "2700" } }, POOL_B);
    await node.kubelet.waitForAllocatable(A, 4);
    const young = await startPod({ [A]: 1 });
    expect((await node.tree(young)).filter((line) => / 2000:2001 2700 /.test(line))).toHaveLength(1);
    expect(await node.tree(old)).toEqual(tree);
  });

  it("loses no Allocate for good: a pod that is refused meanwhile is admitted when it is created again", async () => {
    const rolled = roll(POOL_A, POOL_B);
    const held: string[] = [];
    let admitted = 0;
    for (let attempt = 0; admitted < 4; attempt++) {
      const name = `rolled-${attempt}`;
      const admission = await node.kubelet.admitPod({
        namespace: "ns",
        name,
        containers: [{ name: "c", resources: { [A]: 1 } }],
      });
      if (admission.phase === "Failed") await node.kubelet.waitForAllocatable(A, 4, 60_000);
      else {
        admitted += 1;
        held.push(...devicesOf(name));
        running.add(name);
      }
    }
    await rolled;
    expect(new Set(held).size).toBe(4);
    await node.kubelet.waitForAllocatable(B, 4);
  });

  it("ends at a file that is wrong, and names line and key", async () => {
    await node.writeConfig("node: n1\npools:\n  a:\n    capacity: none\n");
    await daemon.stop("SIGTERM");
    daemon = await node.startDaemon();
    await daemon.ended;
    expect(readFileSync(daemon.log, "utf8")).toContain("line 4, key pools.a.capacity");
    await node.configure(POOL_A, POOL_B);
    daemon = await node.startDaemon();
    await node.kubelet.waitForAllocatable(A, 4);
  });
});

describe("a switch that dies and comes back", () => {
  it("makes devices unhealthy and healthy again, and pods keep their directories", async () => {
    const pod = await startPod();
    const [tree, before] = [await node.tree(pod), counts()];
    await ovs.killVswitchd();
    await node.kubelet.waitForAllocatable(A, 0, 60_000);
    await node.kubelet.waitForAllocatable(B, 0, 60_000);
    expect(node.kubelet.capacity(DATAPLANE)?.allocatable).toBe(1);
    await ovs.restartVswitchd();
    await node.kubelet.waitForAllocatable(A, 4, 60_000);
    expect(await node.tree(pod)).toEqual(tree);
    expect(counts()).toEqual(before);
  });

  it("does not show in the devices at all where it is back within seconds", async () => {
    // On a busy machine the switch may be down for longer than the daemon tolerates; that shows, and proves nothing.
    await waitUntil(() => restartsUnseen(), {
      what: "the switch is back within seconds",
      limitMs: 200_000,
      detail: () => readFileSync(daemon.log, "utf8").slice(-3000),
    });
  });

  /** Whether a restart of the switch did not show in the devices. @throws where it did, though it was short enough */
  async function restartsUnseen(): Promise<boolean> {
    for (const resource of [A, B]) await node.kubelet.waitForAllocatable(resource, 4, 60_000);
    const log = () => readFileSync(daemon.log, "utf8");
    const [before, beganAt] = [log().length, Date.now()];
    const unhealthyAt = () =>
      log()
        .slice(before)
        .split("\n")
        .filter((line) => line.includes('"state":"unhealthy"'))
        .map((line) => Date.parse(/"time":"([^"]+)"/.exec(line)?.[1] ?? ""));
    await ovs.restartVswitchd();
    try {
      await node.untilLogged(daemon, '"reclaimed an allocation"', async () => endPod(await startPod()));
    } catch (error) {
      // Without healthy devices kubelet takes no pod.
      if (unhealthyAt().length === 0) throw error;
    }
    for (const at of unhealthyAt()) {
      expect(at - beganAt, "how long it was down").toBeGreaterThanOrEqual(HEALTH_RULES.failingMs);
    }
    return unhealthyAt().length === 0;
  }
});
