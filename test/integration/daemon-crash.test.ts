import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { link, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
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
import { IpamPlugin } from "../stand-in/cni/ipam-plugin.ts";
import type { SelectedNetwork } from "../stand-in/multus/network.ts";
import { runPlugin } from "../stand-in/multus/run-plugin.ts";

/** Pods whose ADD or DEL the daemon's end hits at the same time; kubelet has 8 devices. */
const AT_ONCE = 7;

let run: LabRun;
let ovs: OvsDpdk;
let node: ClusterNode;
let network: SelectedNetwork;
let netns: NetworkNamespace;
let ipam: IpamPlugin;
let pods = 0;

beforeAll(async () => {
  run = await openLabRun();
  ovs = await startSwitch(run, 0);
  const cniPath = join(run.directory, "bin");
  ipam = await IpamPlugin.install({ binDir: cniPath, directory: join(run.directory, "ipam") });
  node = await ClusterNode.start(run, {
    ...{ name: "a", bridge: BRIDGES.a, databaseSocket: ovs.databaseSocket, cniPath },
    // Every test ends when what it left is old enough to be reclaimed.
    reclaim: { intervalSeconds: 0.3, graceSeconds: 1 },
  });
  netns = await addNetworkNamespace(run, "pod");
  const example = await exampleNetwork();
  const config = { ...JSON.parse(String(example.config)), ipam: { type: ipam.type } };
  network = { ...example, interface: "net1", config };
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
      expect(String(error)).toMatch(/went away|does not listen|cannot be released/);
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

/** The pod is over: DEL where there was an ADD, and kubelet does not list it any more. */
async function end(pod: CrashPod, containerId: string): Promise<void> {
  await node.multus.detach(sandbox(pod, containerId));
  node.kubelet.removePod({ namespace: "tests", name: pod.name });
}

/** Any request retries pending releases; on a node there is always a next one. */
const request = () =>
  runPlugin({
    executable: resolve(import.meta.dirname, "../../dist/cni/kube-vhostuser"),
    env: {
      ...{ PATH: "/usr/bin:/bin", CNI_PATH: join(run.directory, "bin") },
      ...{ CNI_COMMAND: "DEL", CNI_CONTAINERID: "another", CNI_IFNAME: "net1" },
      KUBE_VHOSTUSER_CNI_SOCKET: node.cniSocket,
    },
    stdin: {},
  });

async function expectNothingLeft(): Promise<void> {
  let left = "";
  await waitUntil(
    async () => {
      const { directories, records } = await node.leftovers();
      if (directories === 0 && records > 0) await request();
      const held = await ipam.held();
      left = `${directories} directories, ${records} records, addresses of ${held.join(" and ")}; ${readFileSync(node.daemonLog, "utf8").slice(-3000)}`;
      return directories + records + held.length === 0;
    },
    { what: "nothing is left", detail: () => left },
  );
  expect(await vhostPorts(ovs)).toEqual([]);
}

/** Each pod has a port and addresses of the sandbox that it has now. */
async function expectAttached(containerIds: readonly string[]): Promise<void> {
  await waitUntil(async () => (await vhostPorts(ovs)).length === containerIds.length, { what: "the ports" });
  const wanted = containerIds.map((id) => `${id} net1`).sort();
  let held = "";
  await waitUntil(
    async () => {
      await request();
      held = (await ipam.held()).join();
      return held === wanted.join();
    },
    { what: `addresses of ${wanted.join()} only`, detail: () => held },
  );
}

/** Begins one for each pod, all within 60 ms, at the end of which the daemon is killed: so it is in each of their steps. */
async function killWhile<Result>(works: readonly (() => Promise<Result>)[]): Promise<Result[]> {
  const [results] = await Promise.all([
    Promise.all(works.map((work, index) => delay((60 * index) / (works.length - 1)).then(work))),
    killAndRestart(60),
  ]);
  return results;
}

describe("the daemon killed with SIGKILL", () => {
  // Allocate takes some 15 ms: these hit before, within and after its steps. kubelet calls one after the other.
  it.each([0, 3, 8, 15])(
    "%i ms into Allocate: a pod starts in the end and nothing else is left",
    async (ms) => {
      const [pod] = await Promise.all([admit(), killAndRestart(ms)]);
      const containerId = await attach(pod);
      expect(await vhostPorts(ovs)).toHaveLength(1);
      await end(pod, containerId);
      await expectNothingLeft();
    },
  );

  it("during the ADDs of seven pods: each has one port and its addresses in the end, then none", async () => {
    const pods: CrashPod[] = [];
    while (pods.length < AT_ONCE) pods.push(await admit());
    const containerIds = await killWhile(pods.map((pod) => () => attach(pod)));
    await expectAttached(containerIds);
    for (const [index, pod] of pods.entries()) await end(pod, containerIds[index] ?? "");
    await expectNothingLeft();
  });

  it("during the DELs of seven pods: all succeed, and ports and addresses go", async () => {
    const pods: CrashPod[] = [];
    while (pods.length < AT_ONCE) pods.push(await admit());
    const containerIds = await Promise.all(pods.map(attach));
    await killWhile(pods.map((pod, index) => () => end(pod, containerIds[index] ?? "")));
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
    await end(pod, containerId);
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
    await end(pod, containerId);
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
    await end(pod, containerId);
    await expectNothingLeft();
    // The record is gone a moment before this.
    await waitUntil(() => log().includes("last pod in a switch that is not configured is gone"), {
      what: "the recorded switch is released",
    });
    const other = await admit();
    const otherContainer = await attach(other);
    const { allocations } = await readRecords(node.recordsDirectory);
    expect(JSON.stringify(allocations)).toContain(moved);
    await end(other, otherContainer);
    await expectNothingLeft();
    await node.stopDaemon();
    await writeFile(node.configFile, before);
    await node.startDaemon();
  });

  it("and the pod gone without DEL meanwhile: port and addresses are collected", async () => {
    const pod = await admit();
    await attach(pod);
    await node.killDaemon();
    node.kubelet.removePod({ namespace: "tests", name: pod.name });
    await node.startDaemon();
    await expectNothingLeft();
  });
});
