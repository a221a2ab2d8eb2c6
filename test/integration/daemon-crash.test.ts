import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { link, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readRecords } from "../../src/records/records.ts";
import { ClusterNode, SOCKETS } from "../cluster/cluster-node.ts";
import { exampleNetwork } from "../cluster/network.ts";
import { BRIDGES, startSwitch, vhostPorts } from "../cluster/switch.ts";
import { addNetworkNamespace, type NetworkNamespace } from "../lab/network-namespace.ts";
import type { OvsDpdk } from "../lab/ovs-dpdk.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import type { SelectedNetwork } from "../stand-in/multus/network.ts";

let run: LabRun;
let ovs: OvsDpdk;
let node: ClusterNode;
let network: SelectedNetwork;
let netns: NetworkNamespace;
let pods = 0;

beforeAll(async () => {
  run = await openLabRun();
  ovs = await startSwitch(run, 0);
  node = await ClusterNode.start(run, {
    ...{ name: "a", bridge: BRIDGES.a, databaseSocket: ovs.databaseSocket },
    // Every test ends when what it left is old enough to be reclaimed.
    reclaim: { intervalSeconds: 0.3, graceSeconds: 1 },
  });
  netns = await addNetworkNamespace(run, "pod");
  network = { ...(await exampleNetwork()), interface: "net1" };
});
afterAll(() => run?.close());

interface CrashPod {
  readonly name: string;
  readonly uid: string;
}

const sandbox = (pod: CrashPod, containerId: string) => ({
  pod: { namespace: "tests", name: pod.name, uid: pod.uid },
  containerId,
  netns: netns.path,
});
const newContainerId = () => randomBytes(32).toString("hex");

/** As the workload controller does: a pod that kubelet refuses is replaced by another one. */
async function admit(): Promise<CrashPod> {
  for (let attempt = 0; attempt < 300; attempt++) {
    const name = `pod-${pods++}`;
    const admission = await node.kubelet.admitPod({
      namespace: "tests",
      name,
      containers: [{ name: "c", resources: { [SOCKETS]: 1 } }],
    });
    if (admission.phase === "Running") return { name, uid: admission.uid };
    await delay(100);
  }
  throw new Error("kubelet admitted no pod");
}

/** As kubelet does: every try has a new sandbox, and Multus has called DEL for the one that failed. */
async function attach(pod: CrashPod): Promise<string> {
  for (let attempt = 0; attempt < 10; attempt++) {
    const containerId = newContainerId();
    try {
      await node.multus.attach({ ...sandbox(pod, containerId), networks: [network] });
      return containerId;
    } catch (error) {
      expect(String(error)).toMatch(/went away|does not listen/);
    }
  }
  throw new Error("no sandbox could be attached");
}

/** SIGKILL after `ms`, then the DaemonSet starts the daemon again. */
async function killAndRestart(ms: number): Promise<void> {
  await delay(ms);
  await node.killDaemon();
  await node.startDaemon();
}

async function expectNothingLeft(): Promise<void> {
  let left = "";
  await waitUntil(
    async () => {
      const { directories, records } = await node.leftovers();
      const ports = await vhostPorts(ovs);
      left = `${directories} directories, ${records} records, ports ${ports.join(" ")}; ${readFileSync(node.daemonLog, "utf8").slice(-3000)}`;
      return directories + records + ports.length === 0;
    },
    { what: "nothing is left", everyMs: 100, detail: () => left },
  );
}

describe("the daemon killed with SIGKILL", () => {
  // Allocate takes some 15 ms and ADD some 50: these hit before, within and after each of their steps.
  it.each([0, 2, 5, 8, 12, 20])(
    "%i ms into Allocate: a pod starts in the end and nothing else is left",
    async (ms) => {
      const [pod] = await Promise.all([admit(), killAndRestart(ms)]);
      const containerId = await attach(pod);
      expect(await vhostPorts(ovs)).toHaveLength(1);
      await node.multus.detach(sandbox(pod, containerId));
      node.kubelet.removePod({ namespace: "tests", name: pod.name });
      await expectNothingLeft();
    },
  );

  it.each([0, 4, 8, 15, 25, 40, 60])("%i ms into ADD: one port in the end, then none", async (ms) => {
    const pod = await admit();
    const [containerId] = await Promise.all([attach(pod), killAndRestart(ms)]);
    await waitUntil(async () => (await vhostPorts(ovs)).length === 1, { what: "one port" });
    await node.multus.detach(sandbox(pod, containerId));
    node.kubelet.removePod({ namespace: "tests", name: pod.name });
    await expectNothingLeft();
  });

  it.each([0, 3, 8, 15, 30])("%i ms into DEL: DEL succeeds and the port goes", async (ms) => {
    const pod = await admit();
    const containerId = await attach(pod);
    await Promise.all([node.multus.detach(sandbox(pod, containerId)), killAndRestart(ms)]);
    node.kubelet.removePod({ namespace: "tests", name: pod.name });
    await expectNothingLeft();
  });

  it("while a pod runs: its directory, owner and port do not change", async () => {
    const pod = await admit();
    const containerId = await attach(pod);
    const before = await ovs.vsctl(
      "--columns=name,options,external_ids",
      "find",
      "Interface",
      "type=dpdkvhostuserclient",
    );
    await killAndRestart(0);
    expect(
      await ovs.vsctl("--columns=name,options,external_ids", "find", "Interface", "type=dpdkvhostuserclient"),
    ).toBe(before);
    expect(await node.leftovers()).toEqual({ directories: 1, records: 2 });
    await node.multus.detach(sandbox(pod, containerId));
    node.kubelet.removePod({ namespace: "tests", name: pod.name });
    await expectNothingLeft();
  });

  it("and the switch's database lost meanwhile: the port of the living pod comes back", async () => {
    const pod = await admit();
    const containerId = await attach(pod);
    const [port] = await vhostPorts(ovs);
    await node.killDaemon();
    await ovs.vsctl("del-port", port ?? "");
    await node.startDaemon();
    await waitUntil(async () => (await vhostPorts(ovs))[0] === port, {
      what: "the port is back",
    });
    await node.multus.detach(sandbox(pod, containerId));
    node.kubelet.removePod({ namespace: "tests", name: pod.name });
    await expectNothingLeft();
  });

  it("and the pod's pool removed from the configuration meanwhile: its port is looked after, and goes with it", async () => {
    const pod = await admit();
    const containerId = await attach(pod);
    const [port] = await vhostPorts(ovs);
    const before = await readFile(node.configFile, "utf8");
    await node.killDaemon();
    await ovs.vsctl("del-port", port ?? "");
    await writeFile(node.configFile, before.replace('"name":"sockets"', '"name":"other"'));
    await node.startDaemon();
    await waitUntil(async () => (await vhostPorts(ovs))[0] === port, {
      what: "the port of a pool that is no more is back",
    });
    await node.multus.detach(sandbox(pod, containerId));
    expect(await vhostPorts(ovs)).toEqual([]);
    node.kubelet.removePod({ namespace: "tests", name: pod.name });
    await expectNothingLeft();
    await node.stopDaemon();
    await writeFile(node.configFile, before);
    await node.startDaemon();
  });

  it("and the database's address changed meanwhile: pods keep their ports, new ones come to the new address", async () => {
    const pod = await admit();
    const containerId = await attach(pod);
    const ports = await vhostPorts(ovs);
    const before = await readFile(node.configFile, "utf8");
    await node.killDaemon();
    const moved = join(run.directory, "moved.sock");
    // A second name of the same socket; a path that leads to the first would be the same address.
    await link(ovs.databaseSocket, moved);
    await writeFile(node.configFile, before.replaceAll(ovs.databaseSocket, moved));
    await node.startDaemon();
    const log = () => readFileSync(node.daemonLog, "utf8");
    expect(log()).toContain("serving its older pods in the recorded one");
    expect(await vhostPorts(ovs)).toEqual(ports);
    await node.multus.detach(sandbox(pod, containerId));
    node.kubelet.removePod({ namespace: "tests", name: pod.name });
    await expectNothingLeft();
    // The record is gone a moment before this.
    await waitUntil(() => log().includes("last pod in a switch that is not configured is gone"), {
      what: "the recorded switch is released",
    });
    const other = await admit();
    const otherContainer = await attach(other);
    const { allocations } = await readRecords(node.recordsDirectory);
    expect(JSON.stringify(allocations)).toContain(moved);
    await node.multus.detach(sandbox(other, otherContainer));
    node.kubelet.removePod({ namespace: "tests", name: other.name });
    await expectNothingLeft();
    await node.stopDaemon();
    await writeFile(node.configFile, before);
    await node.startDaemon();
  });

  it("and the pod gone without DEL meanwhile: the port is collected", async () => {
    const pod = await admit();
    await attach(pod);
    await node.killDaemon();
    node.kubelet.removePod({ namespace: "tests", name: pod.name });
    await node.startDaemon();
    await expectNothingLeft();
  });
});
