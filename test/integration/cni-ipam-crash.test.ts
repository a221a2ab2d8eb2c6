import { randomBytes } from "node:crypto";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ClusterNode, SOCKETS } from "../cluster/cluster-node.ts";
import { BRIDGES, startSwitch, vhostPorts } from "../cluster/switch.ts";
import { addNetworkNamespace, type NetworkNamespace } from "../lab/network-namespace.ts";
import type { OvsDpdk } from "../lab/ovs-dpdk.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { IpamPlugin } from "../stand-in/cni/ipam-plugin.ts";
import { StandInMultus } from "../stand-in/multus/multus.ts";
import type { SelectedNetwork } from "../stand-in/multus/network.ts";
import { runPlugin } from "../stand-in/multus/run-plugin.ts";

/** Where the build leaves the CNI executable. */
const BIN = resolve(import.meta.dirname, "../../dist/cni");

let run: LabRun;
let ovs: OvsDpdk;
let node: ClusterNode;
let netns: NetworkNamespace;
let ipam: IpamPlugin;
let multus: StandInMultus;
let network: SelectedNetwork;
let env: Readonly<Record<string, string>>;
let pods = 0;

beforeAll(async () => {
  run = await openLabRun();
  ovs = await startSwitch(run, 0);
  node = await ClusterNode.start(run, { name: "a", bridge: BRIDGES.a, databaseSocket: ovs.databaseSocket });
  netns = await addNetworkNamespace(run, "pod");
  const binDir = join(run.directory, "bin");
  ipam = await IpamPlugin.install({ binDir, directory: join(run.directory, "ipam") });
  env = {
    PATH: "/usr/bin:/bin",
    KUBE_VHOSTUSER_CNI_SOCKET: join(node.directory, "cni.sock"),
    CNI_PATH: binDir,
  };
  const devinfo = join(node.directory, "devinfo");
  multus = new StandInMultus({
    cniBinDir: BIN,
    podResourcesSocket: node.kubelet.paths.podResourcesSocket,
    deviceInfo: { devicePlugin: join(devinfo, "dp"), cni: join(devinfo, "cni") },
    cacheDirectory: join(run.directory, "multus"),
    runtimeEnv: env,
  });
  network = {
    namespace: "tests",
    name: "addressed",
    interface: "net1",
    resourceName: SOCKETS,
    config: {
      cniVersion: "1.1.0",
      name: "addressed",
      type: "kube-vhostuser",
      ipam: { type: ipam.type },
      capabilities: { deviceID: true, CNIDeviceInfoFile: true },
    },
  };
});
afterAll(() => run?.close());

/** SIGKILL after some milliseconds, and then the DaemonSet starts the daemon again. */
async function killAndRestart(ms: number): Promise<void> {
  await delay(ms);
  await node.killDaemon();
  await node.startDaemon();
}

async function admit(): Promise<{ name: string; uid: string }> {
  const name = `pod-${pods++}`;
  const containers = [{ name: "c", resources: { [SOCKETS]: 1 } }];
  const { phase, uid } = await node.kubelet.admitPod({ namespace: "tests", name, containers });
  if (phase !== "Running") throw new Error(`kubelet does not admit ${name}`);
  return { name, uid };
}

const sandbox = ({ name, uid }: { name: string; uid: string }, containerId: string) => ({
  pod: { namespace: "tests", name, uid },
  containerId,
  netns: netns.path,
});

/** As kubelet does: every try has a new sandbox, and Multus has called DEL for the one that failed. */
async function attach(pod: { name: string; uid: string }): Promise<string> {
  for (let attempt = 0; attempt < 10; attempt++) {
    const containerId = randomBytes(8).toString("hex");
    try {
      await multus.attach({ ...sandbox(pod, containerId), networks: [network] });
      return containerId;
    } catch (error) {
      expect(String(error)).toMatch(/went away|does not listen|cannot be released/);
    }
  }
  throw new Error("no sandbox could be attached");
}

/** Any request retries pending releases; on a node there is always a next one. */
async function untilHeld(expected: readonly string[]): Promise<void> {
  let left = "";
  const target = { CNI_COMMAND: "DEL", CNI_CONTAINERID: "another", CNI_IFNAME: "net1" };
  await waitUntil(
    async () => {
      await runPlugin({
        executable: join(BIN, "kube-vhostuser"),
        env: { ...env, ...target },
        stdin: {},
      });
      const held = await ipam.held();
      const ports = await vhostPorts(ovs);
      left = `held ${held.join(", ")}; ${ports.length} ports`;
      return held.join() === expected.join() && ports.length === expected.length;
    },
    {
      what: "addresses and ports are those of living pods",
      everyMs: 100,
      detail: () => left,
    },
  );
}

describe("the daemon killed with SIGKILL while an IPAM plugin gives addresses", () => {
  it.each([0, 10, 20, 35, 60, 100])(
    "%i ms into ADD: one pod's addresses in the end, then none",
    async (ms) => {
      const pod = await admit();
      const [containerId] = await Promise.all([attach(pod), killAndRestart(ms)]);
      await untilHeld([`${containerId} net1`]);
      await multus.detach(sandbox(pod, containerId));
      node.kubelet.removePod({ namespace: "tests", name: pod.name });
      await untilHeld([]);
    },
  );

  it.each([0, 10, 20, 35])("%i ms into DEL: it succeeds, and the addresses are released", async (ms) => {
    const pod = await admit();
    const containerId = await attach(pod);
    await Promise.all([multus.detach(sandbox(pod, containerId)), killAndRestart(ms)]);
    node.kubelet.removePod({ namespace: "tests", name: pod.name });
    await untilHeld([]);
  });

  it("and the DEL never repeated: the next request of any pod releases the addresses", async () => {
    const pod = await admit();
    await attach(pod);
    await node.killDaemon();
    node.kubelet.removePod({ namespace: "tests", name: pod.name });
    await node.startDaemon();
    await untilHeld([]);
  });
});
