import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { UnixServer } from "../../../src/grpc/unix-server.ts";
import { BarePlugin, register } from "./bare-plugin.ts";
import { StandInKubelet, type StandInKubeletOptions } from "./kubelet.ts";

const RESOURCE = "vhostuser/sockets";

let root: string;
let kubelet: StandInKubelet;
const servers: UnixServer[] = [];

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "kubelet-"));
});
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
  await kubelet.stop();
  await rm(root, { recursive: true, force: true });
});

/** A kubelet with a plugin whose devices are named after their NUMA node: `0a` is on node 0, `-a` on none. */
async function start(
  ids: readonly string[],
  policy: NonNullable<StandInKubeletOptions["topologyPolicy"]>,
): Promise<BarePlugin> {
  kubelet = await StandInKubelet.start({ root, topologyPolicy: policy });
  const plugin = new BarePlugin();
  plugin.options = { get_preferred_allocation_available: true };
  plugin.devices = ids.map((ID) => ({
    ID,
    health: "Healthy",
    topology: ID.startsWith("-") ? null : { nodes: [{ ID: Number(ID[0]) }] },
  }));
  servers.push(await plugin.listen(kubelet.paths));
  await register(kubelet.paths);
  await kubelet.waitForAllocatable(RESOURCE, ids.length);
  return plugin;
}

async function admit(name: string, count: number): Promise<readonly string[] | string> {
  const containers = [{ name: "main", resources: { [RESOURCE]: count } }];
  const admission = await kubelet.admitPod({ namespace: "ns", name, containers });
  if (admission.phase === "Failed") return admission.reason;
  return [...(admission.containers[0]?.deviceIds[RESOURCE] ?? [])].sort();
}

describe("the stand-in kubelet's choice of devices", () => {
  it("asks the plugin about the devices of the chosen node only, and keeps to them", async () => {
    const plugin = await start(["0a", "1a", "1b", "1c"], "single-numa-node");
    plugin.preferred = ["0a", "1c", "1b"];
    expect(await admit("vm", 2)).toEqual(["1b", "1c"]);
    expect(new Set(kubelet.preferenceCalls[0]?.available)).toEqual(new Set(["1a", "1b", "1c"]));
  });

  it("does not ask where the chosen node has no more than is needed", async () => {
    await start(["0a", "0b", "1a"], "single-numa-node");
    expect(await admit("vm", 2)).toEqual(["0a", "0b"]);
    expect(kubelet.preferenceCalls).toEqual([]);
  });

  it("refuses what no node has enough of", async () => {
    await start(["0a", "1a"], "single-numa-node");
    expect(await admit("vm", 2)).toBe("TopologyAffinityError");
    expect(await admit("small", 1)).toEqual(["0a"]);
  });

  it("has no opinion on devices without a node, and none without a policy", async () => {
    await start(["-a", "-b"], "single-numa-node");
    expect(await admit("vm", 2)).toEqual(["-a", "-b"]);
    // Asked although there is nothing to choose.
    expect(kubelet.preferenceCalls).toHaveLength(1);
  });
});

describe("the stand-in kubelet after a reboot of its node", () => {
  it("admits pods from its checkpoint without Allocate, once their devices are healthy again", async () => {
    const plugin = await start(["0a"], "none");
    const hostPath = join(root, "allocation");
    await mkdir(hostPath);
    plugin.answer = { mounts: [{ container_path: "/run/x", host_path: hostPath }] };
    expect(await admit("vm", 1)).toEqual(["0a"]);
    await kubelet.reboot();
    servers.push(await plugin.listen(kubelet.paths, "b.sock"));
    await register(kubelet.paths, { endpoint: "b.sock" });
    await kubelet.waitForAllocatable(RESOURCE, 1);
    expect((await kubelet.readmitPods()).get("ns/vm")).toMatchObject({
      phase: "Running",
      containers: [{ mounts: [{ hostPath }] }],
    });
    expect(kubelet.allocateCalls).toHaveLength(1);
  });

  it("fails pods for good that come before their devices", async () => {
    await start(["0a"], "none");
    await admit("vm", 1);
    await kubelet.reboot();
    expect((await kubelet.readmitPods()).get("ns/vm")).toMatchObject({
      phase: "Failed",
      message: expect.stringContaining("no healthy devices present"),
    });
    expect(() => kubelet.containers({ namespace: "ns", name: "vm" })).toThrow("no pod");
  });

  it("says what the runtime cannot mount any more", async () => {
    const plugin = await start(["0a"], "none");
    const hostPath = join(root, "allocation");
    await mkdir(hostPath);
    plugin.answer = { mounts: [{ container_path: "/run/x", host_path: hostPath }] };
    await admit("vm", 1);
    await kubelet.reboot(() => rm(hostPath, { recursive: true }));
    servers.push(await plugin.listen(kubelet.paths, "b.sock"));
    await register(kubelet.paths, { endpoint: "b.sock" });
    await kubelet.waitForAllocatable(RESOURCE, 1);
    await expect(kubelet.readmitPods()).rejects.toThrow(`host path ${hostPath} does not exist`);
  });
});
