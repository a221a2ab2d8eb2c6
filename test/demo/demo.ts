import { setTimeout as delay } from "node:timers/promises";
import { buildAll } from "../../scripts/build/build-all.ts";
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
import { ensurePackages } from "../machine/packages.ts";
import { waitUntil } from "../machine/wait-until.ts";
import type { DemoFigures } from "./figures.ts";
import type { Narrator } from "./narrator.ts";

const MAC = { vm1: "02:00:00:00:01:01", vm2: "02:00:00:00:01:02", testpmd: "02:00:00:00:01:03" } as const;
const ADDRESS = { vm1: "10.1.0.1", vm2: "10.1.0.2" } as const;
const PINGS = 100;
/** Four bursts fit into a ring of 256 descriptors, so none is dropped before the switch has polled. */
const BURSTS_AT_ONCE = 4;
const SETTLED_MS = 2_500;
const ROUNDS = 8;
/** Pings continue for so long after the migration, so that a late loss is seen. */
const AFTER_MIGRATION_MS = 2_000;

/** What the demo measured while it ran; what is left after the clean-up is counted by the caller. */
export type MeasuredFigures = Omit<DemoFigures, "left" | "steps"> & {
  readonly left: Pick<DemoFigures["left"], "ports" | "directories" | "records">;
};

/** The whole flow: two VMs and a DPDK pod on two nodes, traffic, a live migration, the end. */
export async function runDemo(run: LabRun, narrator: Narrator): Promise<MeasuredFigures> {
  const { switches, nodes, image } = await prepare(run, narrator);
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
  await narrator.step("define", async () => {
    const [defined] = await Promise.all([source, peer].map(launchAndDefine));
    const calls = defined?.calls.length ?? 0;
    return {
      say: `KubeVirt asked each sidecar ${calls} times for the domain; VM 1's NIC:`,
      result: undefined,
    };
  });
  for (const line of interfaceLines(await source.libvirt.dumpInactiveXml(source.domainName)))
    narrator.say(line);
  await narrator.step("boot", async () => {
    await Promise.all([source.boot(), peer.boot()]);
    await source.guest.setAddress(MAC.vm1, `${ADDRESS.vm1}/24`);
    await peer.guest.setAddress(MAC.vm2, `${ADDRESS.vm2}/24`);
    return { say: "both guests are up, their ports in Open vSwitch too", result: undefined };
  });
  const pings = await narrator.step("ping", async () => {
    await peer.guest.waitForPeer(ADDRESS.vm1);
    const figures = await peer.guest.ping(ADDRESS.vm1, PINGS);
    const say = `VM 2 to VM 1 through OVS-DPDK: ${figures.sent} sent, ${figures.lost} lost, ${figures.rttAvgUs} us each`;
    return { say, result: figures };
  });
  const dpdkPod = new DpdkPod({ run, node: nodes.a, name: "testpmd", network, mac: MAC.testpmd });
  const testpmd = await narrator.step("dpdk-pod", async () => {
    const figures = await sendFromDpdkPod(dpdkPod, source);
    return {
      say: `testpmd in a pod on node a sent ${figures.tx} frames, VM 1 counted ${figures.rx}`,
      result: figures,
    };
  });
  await narrator.step("dpdk-end", async () => {
    await dpdkPod.remove();
    return { say: "the DPDK pod is deleted", result: undefined };
  });

  const target = pod(nodes.b, "vm1");
  await attach(target, narrator);
  await narrator.step("target", async () => {
    await target.launch();
    await target.prepareAsTarget();
    return {
      say: "the target pod on node b is ready; its sidecar's answer is discarded",
      result: undefined,
    };
  });
  const migration = await narrator.step("migrate", async () => {
    const figures = await migrateUnderPing(source, target, peer);
    const { downtimeMs, outageMs, lost } = figures;
    const say = `VM 1 went live from node a to b: downtime ${downtimeMs} ms, outage ${outageMs} ms, ${lost} pings lost`;
    return { say, result: figures };
  });

  await narrator.step("detach", async () => {
    for (const vm of [source, target, peer]) {
      await vm.stop();
      await vm.detach();
      vm.remove();
    }
    return { say: "VMs ended, ports removed, pods deleted", result: undefined };
  });
  const left = await narrator.step("reclaim", async () => {
    const found = await waitUntilNothingIsLeft(switches, [nodes.a, nodes.b]);
    return { say: "the daemons saw in kubelet's list that the devices are free", result: found };
  });
  return { pings: { sent: pings.sent, lost: pings.lost }, testpmd, migration, left };
}

async function prepare(run: LabRun, narrator: Narrator) {
  await narrator.step("packages", async () => {
    await ensurePackages(run);
    return { say: "Open vSwitch with DPDK, QEMU, libvirt and a guest kernel are there", result: undefined };
  });
  await narrator.step("build", async () => {
    const files = await buildAll();
    const sizes = files.map(({ file, bytes }) => `${file} ${Math.ceil(bytes / 1024)} KiB`);
    return { say: sizes.join(", "), result: undefined };
  });
  const image = await narrator.step("guest", async () => {
    const kernel = await findGuestKernel();
    if (kernel === undefined) throw new Error("the guest kernel was not unpacked");
    return { say: `kernel ${kernel.version} and an initramfs`, result: await buildGuestImage(kernel) };
  });
  const switches = await narrator.step("switches", async () => ({
    result: await startSwitches(run, TESTPMD_HUGEPAGES),
    say: "an OVS-DPDK for each of two nodes, a link between them",
  }));
  const nodes = await narrator.step("nodes", async () => {
    const start = (name: keyof typeof BRIDGES) =>
      ClusterNode.start(run, { name, bridge: BRIDGES[name], databaseSocket: switches[name].databaseSocket });
    const [a, b] = await Promise.all([start("a"), start("b")]);
    return { say: "kubelet, Multus and our daemon run on nodes a and b", result: { a, b } };
  });
  return { switches, nodes, image };
}

async function attach(vm: VmPod, narrator: Narrator): Promise<void> {
  await narrator.step("allocate", async () => {
    const { mounts } = await vm.allocate();
    return {
      say: `${vm.name}: a directory of its own, at ${mounts[0]?.containerPath} in the pod`,
      result: undefined,
    };
  });
  await narrator.step("attach", async () => {
    await vm.attach();
    return {
      say: `${vm.name}: CNI made port ${vm.portName} on node ${vm.node.name}'s bridge`,
      result: undefined,
    };
  });
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
  await pod.attach();
  const testpmd = await pod.start(MAC.vm1);
  // For a new guest the switch redistributes its queues, and it is announced for a while: neither is counted here.
  await delay(SETTLED_MS);
  const counting = await receiver.guest.startCount(MAC.vm1, MAC.testpmd);
  let tx = 0;
  for (let round = 0; round < ROUNDS; round++) ({ tx } = await testpmd.sendBursts(BURSTS_AT_ONCE));
  // The guest takes its time under emulation; the last of so few frames is there within a second.
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
