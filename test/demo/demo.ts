import { mkdir, writeFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { buildStep } from "../../scripts/build/build-all.ts";
import { ownProcessor } from "../../scripts/build/compile-shim.ts";
import { installPackages } from "../../scripts/in-lab-run.ts";
import type { Narrator } from "../../scripts/narrator.mjs";
import { pageWithSnapshot } from "../../src/status/page/page-snapshot.ts";
import { nodeStatusShape, traceShape } from "../../src/status/shape.ts";
import { askDaemon } from "../../src/status/status-client.ts";
import { statusSocket } from "../../src/status/status-source.ts";
import { ClusterNode } from "../cluster/cluster-node.ts";
import { DpdkPod } from "../cluster/dpdk-pod.ts";
import { smallVmi } from "../cluster/example-vm.ts";
import { exampleNetwork } from "../cluster/network.ts";
import { BRIDGES, type Switches, startSwitches, vhostPorts } from "../cluster/switch.ts";
import { VmPod } from "../cluster/vm-pod.ts";
import { buildGuestImage } from "../guest/image.ts";
import { BURST_PACKETS, TESTPMD_HUGEPAGES } from "../lab/testpmd.ts";
import { findGuestKernel } from "../machine/guest-kernel.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { FakeApiServer } from "../stand-in/api-server/fake-api-server.ts";
import type { DemoFigures } from "./figures.ts";

const MAC = { vm1: "02:00:00:00:01:01", vm2: "02:00:00:00:01:02", testpmd: "02:00:00:00:01:03" } as const;
const ADDRESS = { vm1: "10.1.0.1", vm2: "10.1.0.2" } as const;
const PINGS = 100;
/** Four bursts fit into a ring of 256 descriptors, so none is dropped before the switch has polled. */
const BURSTS_AT_ONCE = 4;
const SETTLED_MS = 2_500;
const ROUNDS = 8;
const ROUND_MS = 150;
/** Pings continue for so long after the migration, so that a late loss is seen. */
const AFTER_MIGRATION_MS = 2_000;

/** What the demo measured while it ran; what is left after the clean-up is counted by the caller. */
export type MeasuredFigures = Omit<DemoFigures, "left" | "steps"> & {
  readonly left: Pick<DemoFigures["left"], "ports" | "directories" | "records">;
};

/** The whole flow: two VMs on two nodes, a live migration, a DPDK pod, traffic, a picture, the end. */
export async function runDemo(run: LabRun, narrator: Narrator): Promise<MeasuredFigures> {
  const { switches, nodes, image, api } = await prepare(run, narrator);
  const network = await exampleNetwork();
  const pod = (node: ClusterNode, vm: "vm1" | "vm2") =>
    new VmPod({
      run,
      node,
      name: `${vm}-${node.name}`,
      vmi: smallVmi({ name: vm, mac: MAC[vm] }),
      network,
      image,
    });
  const source = pod(nodes.a, "vm1");
  const peer = pod(nodes.b, "vm2");

  for (const vm of [source, peer]) await attach(vm, narrator);
  await narrator.step("define", "KubeVirt (stand-in) asks the sidecars for both domains", async () => {
    const [defined] = await Promise.all([source, peer].map(launchAndDefine));
    const calls = defined?.calls.length ?? 0;
    return { say: `KubeVirt (stand-in) asked each sidecar ${calls} times for the domain; VM 1's NIC:` };
  });
  for (const line of interfaceLines(await source.libvirt.dumpInactiveXml(source.domainName)))
    narrator.say(line);
  await narrator.step("boot", "both guests boot", async () => {
    await Promise.all([source.boot(), peer.boot()]);
    await source.guest.setAddress(MAC.vm1, `${ADDRESS.vm1}/24`);
    await peer.guest.setAddress(MAC.vm2, `${ADDRESS.vm2}/24`);
    return { say: "both guests are up, their ports in Open vSwitch too" };
  });
  const pings = await narrator.step("ping", "VM 2 pings VM 1", async () => {
    await peer.guest.waitForPeer(ADDRESS.vm1);
    const figures = await peer.guest.ping(ADDRESS.vm1, PINGS);
    const say = `VM 2 to VM 1 through OVS-DPDK: ${figures.sent} sent, ${figures.lost} lost, ${figures.rttAvgUs} us each`;
    return { say, result: figures };
  });

  const target = pod(nodes.b, "vm1");
  await attach(target, narrator);
  await narrator.step("target", "the target pod of the migration starts on node b", async () => {
    await target.launch();
    await target.prepareAsTarget();
    return { say: "the target pod on node b is ready; its sidecar's answer is discarded" };
  });
  const migration = await narrator.step(
    "migrate",
    "VM 1 migrates while VM 2 pings it every 10 ms",
    async () => {
      const figures = await migrateUnderPing(source, target, peer);
      const { downtimeMs, outageMs, lost } = figures;
      const say = `VM 1 went live from node a to b and kept ${ADDRESS.vm1}: downtime ${downtimeMs} ms, outage ${outageMs} ms, ${lost} pings lost`;
      return { say, result: figures };
    },
  );

  const port = { claimAt: api };
  const dpdkPod = new DpdkPod({ run, node: nodes.b, name: "testpmd", port, mac: MAC.testpmd });
  await narrator.step("claim", "testpmd: kubelet (stand-in) asks the DRA driver", async () => {
    await dpdkPod.attach();
    return { say: `testpmd: port ${dpdkPod.claimedPort} by a ResourceClaim, without a network and Multus` };
  });
  const testpmd = await narrator.step("dpdk-pod", "testpmd in a DPDK pod sends to VM 1", async () => {
    const figures = await sendFromDpdkPod(dpdkPod, target);
    const say = `testpmd in a pod on node b sent ${figures.tx} frames, VM 1 counted ${figures.rx}`;
    return { say, result: figures };
  });
  const picture = await narrator.step("picture", "node b's status page is written to a file", async () => {
    const file = await writePicture(nodes.b);
    return { say: `node b's status page, with both VMs and the pod: ${file}`, result: file };
  });

  await narrator.step("detach", "VMs and pod end, CNI removes their ports", async () => {
    await dpdkPod.remove();
    for (const vm of [source, target, peer]) {
      await vm.stop();
      await vm.detach();
      vm.remove();
    }
    return { say: "VMs and pod ended, ports removed, pods deleted" };
  });
  const left = await narrator.step("reclaim", "the daemons reclaim the directories", async () => {
    const found = await waitUntilNothingIsLeft(switches, [nodes.a, nodes.b]);
    return { say: "the daemons saw in kubelet's list (stand-in) that the devices are free", result: found };
  });
  return { pings: { sent: pings.sent, lost: pings.lost }, testpmd, migration, picture, left };
}

async function prepare(run: LabRun, narrator: Narrator) {
  await installPackages(run, narrator, "demo");
  await buildStep(narrator, [ownProcessor()]);
  const image = await narrator.step("guest", "the guests' kernel and initramfs are prepared", async () => {
    const kernel = await findGuestKernel();
    if (kernel === undefined) throw new Error("the guest kernel was not unpacked");
    return { say: `kernel ${kernel.version} and an initramfs`, result: await buildGuestImage(kernel) };
  });
  const switches = await narrator.step("switches", "two Open vSwitch with DPDK start", async () => ({
    result: await startSwitches(run, TESTPMD_HUGEPAGES),
    say: "an OVS-DPDK for each of two nodes, a link between them",
  }));
  const api = await FakeApiServer.start();
  run.cleanup.defer("stop the API server", () => api.close());
  api.namespaces.add("tests");
  const nodes = await narrator.step("nodes", "the daemon starts on both nodes", async () => {
    const start = (name: keyof typeof BRIDGES) => {
      api.store.create("nodes", { metadata: { name } });
      const { databaseSocket } = switches[name];
      return ClusterNode.start(run, {
        name,
        bridge: BRIDGES[name],
        databaseSocket,
        claims: { ports: 1, api },
      });
    };
    const [a, b] = await Promise.all([start("a"), start("b")]);
    const say = "our daemon on nodes a and b, beside kubelet, Multus and API server (stand-ins)";
    return { say, result: { a, b } };
  });
  return { switches, nodes, image, api };
}

async function attach(vm: VmPod, narrator: Narrator): Promise<void> {
  await narrator.step("allocate", `${vm.name}: kubelet (stand-in) asks the device plugin`, async () => {
    const { mounts } = await vm.allocate();
    return { say: `${vm.name}: a directory of its own, at ${mounts[0]?.containerPath} in the pod` };
  });
  await narrator.step("attach", `${vm.name}: Multus (stand-in) calls the CNI executable`, async () => {
    await vm.attach();
    return { say: `${vm.name}: CNI made port ${vm.portName} on node ${vm.node.name}'s bridge` };
  });
}

/** The node's status page as a file, with the chain of each interface. */
async function writePicture(node: ClusterNode): Promise<string> {
  const socket = statusSocket(node);
  const status = await askDaemon(socket, "/v1/node", nodeStatusShape);
  const traces = status.interfaces.map(({ pod: { namespace, name: pod } }) =>
    askDaemon(socket, `/v1/trace?${new URLSearchParams({ namespace, pod })}`, traceShape),
  );
  const traced = (await Promise.all(traces)).flatMap(({ interfaces }) => interfaces);
  const file = `dist/demo/node-${node.name}.html`;
  await mkdir("dist/demo", { recursive: true });
  await writeFile(file, await pageWithSnapshot(status, traced));
  return file;
}

async function launchAndDefine(vm: VmPod) {
  await vm.launch();
  return vm.define();
}

function interfaceLines(xml: string): readonly string[] {
  const lines = xml.split("\n");
  const start = lines.findIndex(
    (line) => line.includes('<interface type="vhostuser"') || line.includes("<interface type='vhostuser'"),
  );
  const end = lines.findIndex((line, index) => index > start && line.includes("</interface>"));
  return lines.slice(start, end + 1);
}

async function sendFromDpdkPod(pod: DpdkPod, receiver: VmPod): Promise<{ tx: number; rx: number }> {
  const testpmd = await pod.start(MAC.vm1);
  // For a new guest the switch redistributes its queues, and it is announced for a while: neither is counted here.
  await delay(SETTLED_MS);
  const counting = await receiver.guest.startCount(MAC.vm1, MAC.testpmd);
  let tx = 0;
  for (let round = 0; round < ROUNDS; round++) {
    ({ tx } = await testpmd.sendBursts(BURSTS_AT_ONCE));
    // Two rounds fill a queue of the guest, which takes its time under emulation.
    await delay(ROUND_MS);
  }
  // The last of so few frames is there within a second.
  await delay(1_000);
  const { frames } = await counting.stop();
  if (tx < ROUNDS * BURSTS_AT_ONCE * BURST_PACKETS) throw new Error(`testpmd sent ${tx} frames only`);
  return { tx, rx: frames };
}

async function migrateUnderPing(
  source: VmPod,
  target: VmPod,
  peer: VmPod,
): Promise<DemoFigures["migration"]> {
  const pinging = await peer.guest.startPing(ADDRESS.vm1, 10);
  const { downtimeMs } = await source.libvirt.migrate(source.domainName, target.libvirt);
  await delay(AFTER_MIGRATION_MS);
  const { sent, lost, longestGapMs } = await pinging.stop();
  return { downtimeMs, outageMs: longestGapMs, sent, lost };
}

async function waitUntilNothingIsLeft(
  switches: Switches,
  nodes: readonly ClusterNode[],
): Promise<MeasuredFigures["left"]> {
  const look = async () => {
    const found = await Promise.all(nodes.map((node) => node.leftovers()));
    const ports = await Promise.all(Object.values(switches).map(vhostPorts));
    return {
      ports: ports.flat().length,
      directories: found.reduce((sum, { directories }) => sum + directories, 0),
      records: found.reduce((sum, { records }) => sum + records, 0),
    };
  };
  // What is left at the timeout is reported, not hidden.
  await waitUntil(async () => Object.values(await look()).every((count) => count === 0), {
    what: "everything is reclaimed",
    limitMs: 20_000,
    everyMs: 100,
  }).catch(() => undefined);
  return look();
}
