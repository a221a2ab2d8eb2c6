import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import { buildGuestImage, type GuestImage } from "../guest/image.ts";
import { findGuestKernel } from "../machine/guest-kernel.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";
import { apply, eventually } from "./claims-cluster.ts";
import { type Cluster, openCluster } from "./cluster.ts";
import { PROJECT } from "./kubernetes-parts.ts";
import { kubeVirtParts } from "./kubevirt-parts.ts";
import { writeImage } from "./local-image.ts";
import type { NodeMachine } from "./node-machine.ts";
import { quickStartSteps } from "./quick-start-page.ts";

/** The container image that VMs boot from. */
export const GUEST_IMAGE = "localhost/lab-guest:1";
/** The link between the two switches. */
const LINK = "sw0";
const LABELS = "node.kubevirt.io/";

/** Two nodes with KubeVirt under emulation, and with daemon and switches as in the quick start, which are connected. */
export interface KubeVirtRig {
  readonly cluster: Cluster;
  readonly machines: readonly NodeMachine[];
  readonly guest: GuestImage;
  /** Runs kubectl, and gives what it prints. */
  kubectl(command: string): Promise<string>;
  /** Runs virtctl in the namespace `tests`. */
  virtctl(command: string): Promise<string>;
  /** Runs a program in each switch's container, and gives what it prints. */
  onSwitches(command: string): Promise<readonly string[]>;
  /** Gives an image a further name on all nodes. */
  tagImage(name: string, further: string): Promise<void>;
}

/** Nodes as `kubectl get nodes --output json` shows them. */
interface Nodes {
  readonly items: readonly {
    readonly metadata: { readonly name: string; readonly labels: Readonly<Record<string, string>> };
  }[];
}

/** KubeVirt's CR of deploy/kubevirt, as far as it is changed here. */
interface KubeVirtResource {
  readonly spec: {
    infra?: { replicas: number };
    readonly configuration: {
      readonly developerConfiguration: { useEmulation?: boolean; readonly disabledFeatureGates: string[] };
    };
  };
}

/** @throws Failure part-missing where KubeVirt or a part of the nodes is missing */
export async function openKubeVirtRig(run: LabRun): Promise<KubeVirtRig> {
  const parts = kubeVirtParts(process.env);
  const cluster = await openCluster(run, {}, { hasWorker: true, hasAggregation: true });
  const { node } = cluster;
  if (node?.worker === undefined) throw new Error("the tests have two nodes");
  const kernel = await findGuestKernel();
  if (kernel === undefined) throw new Error("the guest kernel was not unpacked");
  const guest = await buildGuestImage(kernel);
  const files = { "boot/kernel": guest.kernel, "boot/initrd": guest.initrd };
  const image = { name: GUEST_IMAGE, files, entrypoint: ["/not-run"] };
  run.progress("KubeVirt: images");
  for (const each of [await writeImage(join(run.directory, "guest"), image), ...parts.images])
    await node.importImage(each);

  const kubectl = (command: string) => cluster.sh(`kubectl ${command}`);
  const rig: KubeVirtRig = {
    ...{ cluster, machines: [node.machine, node.worker], guest, kubectl },
    virtctl: (command) => cluster.sh(`${parts.virtctl} --namespace tests ${command}`),
    tagImage: (name, further) => node.tagImage(name, further),
    onSwitches: async (command) => {
      const pods = await kubectl(
        "-n openvswitch get pods --selector app.kubernetes.io/name=ovs-dpdk --output name",
      );
      const outputs: string[] = [];
      for (const pod of pods.trim().split("\n"))
        outputs.push(await kubectl(`-n openvswitch exec ${pod} --container ovs-vswitchd -- ${command}`));
      return outputs;
    },
  };
  await prepare(rig, parts.operator, run);
  return rig;
}

async function prepare(rig: KubeVirtRig, operator: string, run: Pick<LabRun, "progress">): Promise<void> {
  const { cluster } = rig;
  run.progress("KubeVirt: its operator and its parts");
  await installKubeVirt(rig, operator);
  run.progress("daemon and switches");
  for (const { section, script } of quickStartSteps()) if (section.startsWith("3.")) await cluster.sh(script);
  await cluster.sh("kubectl create namespace tests\nkubectl apply -f deploy/examples/network.yaml");
  await connectSwitches(rig);
}

async function installKubeVirt(rig: KubeVirtRig, operator: string): Promise<void> {
  const { kubectl, cluster } = rig;
  await kubectl("label nodes --all node-role.kubernetes.io/control-plane=");
  await kubectl(`apply --server-side --filename ${operator}`);
  await kubectl("-n kubevirt scale deployment/virt-operator --replicas=1");
  await kubectl("wait crd/kubevirts.kubevirt.io --for=condition=Established --timeout=1m");
  const text = await readFile(join(PROJECT, "deploy/kubevirt/kubevirt-cr.yaml"), "utf8");
  const resource = parse(text) as KubeVirtResource;
  const { developerConfiguration } = resource.spec.configuration;
  developerConfiguration.useEmulation = true;
  // VM templates have API servers of their own, with images of another release.
  developerConfiguration.disabledFeatureGates.push("Template");
  resource.spec.infra = { replicas: 1 };
  await apply(cluster, resource);
  await kubectl("-n kubevirt wait kubevirt/kubevirt --for=condition=Available --timeout=9m");
  await eventually("virt-handler has labelled the nodes", async () => {
    const { items } = JSON.parse(await kubectl("get nodes --output json")) as Nodes;
    return items.every(({ metadata }) => hostModelOf(metadata.labels) !== undefined);
  });
  await labelForMigration(rig);
}

const hostModelOf = (labels: Readonly<Record<string, string>>) =>
  Object.keys(labels).find((label) => label.startsWith(`host-model-cpu.${LABELS}`));

/**
 * A migration's target must have the labels of the CPU model that KubeVirt read on the source. Under emulation it gives no
 * node those labels, though the emulated model is the same on all.
 */
async function labelForMigration({ kubectl }: KubeVirtRig): Promise<void> {
  const { items } = JSON.parse(await kubectl("get nodes --output json")) as Nodes;
  // Or virt-handler would remove the labels.
  await kubectl("annotate nodes --all node-labeller.kubevirt.io/skip-node=true");
  for (const { metadata } of items) {
    const model = hostModelOf(metadata.labels)?.split("/")[1] ?? "";
    const required = `host-model-required-features.${LABELS}`;
    const features = Object.keys(metadata.labels)
      .filter((label) => label.startsWith(required))
      .map((label) => `cpu-feature.${LABELS}${label.slice(required.length)}=true`);
    await kubectl(
      `label --overwrite node ${metadata.name} cpu-model-migration.${LABELS}${model}=true ${features.join(" ")}`,
    );
  }
}

/** As two nodes' uplinks would: a veth pair, whose ends are ports of the bridges. */
async function connectSwitches({ machines, onSwitches }: KubeVirtRig): Promise<void> {
  const [one, other] = machines.map(({ initPid }) => String(initPid));
  const peer = ["peer", "name", LINK, "netns", other ?? ""];
  await runProgram("ip", ["link", "add", LINK, "netns", one ?? "", "type", "veth", ...peer]);
  for (const machine of machines) await machine.sh(`ip link set ${LINK} addrgenmode none up`);
  await onSwitches(`ovs-vsctl --may-exist add-port br-dpdk ${LINK}`);
}
