import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import type { LabRun } from "../machine/lab-run.ts";
import { apply, eventually } from "./claims-cluster.ts";
import { type Cluster, openCluster } from "./cluster.ts";
import { IPAM_CLAIM_DEFINITION } from "./ipam-claim-definitions.ts";
import { PROJECT } from "./kubernetes-parts.ts";
import { startKubeVirtNodes } from "./kubevirt-nodes.ts";
import { kubeVirtParts } from "./kubevirt-parts.ts";
import { quickStartSteps } from "./quick-start-page.ts";

/** The link between the two switches. */
const LINK = "sw0";
const LABELS = "node.kubevirt.io/";
const KUBEVIRT = "-n kubevirt";
const SWITCHES = "-n openvswitch";
/** All that the VMs of the tests use: sockets by claims, and addresses that VMs keep. */
const VALUES = [
  ...[
    "dra.enabled=true",
    "config.pools.sockets.claims.ports=32",
    "kubevirt.sidecarClaims=true",
    "kubevirt.hotplugWarning=true",
  ],
  ...["ipam.enabled=true", "ipam.claims.enabled=true", "ipam.claims.manage=true"],
];

/**
 * Two nodes with KubeVirt, and with daemon, IPAM and switches, which are connected. All is done by kubectl and virtctl, so that
 * it is the same for the nodes on this machine and for the cluster of KUBECONFIG.
 */
export interface KubeVirtRig {
  readonly cluster: Cluster;
  readonly run: LabRun;
  /** Runs kubectl, and gives what it prints; with `2>&1` also warnings. */
  kubectl(command: string): Promise<string>;
  /** Runs virtctl in the namespace `tests`. */
  virtctl(command: string): Promise<string>;
  /** Path of virtctl. */
  readonly virtctlPath: string;
  /** Runs a program in each switch's container, and gives what it prints. */
  onSwitches(command: string): Promise<readonly string[]>;
  /** Runs a shell script as root on each node, and gives what it prints. */
  onNodes(script: string): Promise<readonly string[]>;
  /** Removes what the tests added to nodes and KubeVirt beside the steps of the quick start. */
  restore(): Promise<void>;
}

/** What is read of nodes. */
interface Nodes {
  readonly items: readonly {
    readonly metadata: { readonly name: string; readonly labels: Readonly<Record<string, string>> };
    readonly status: { readonly addresses: readonly { readonly type: string; readonly address: string }[] };
  }[];
}

/** What is read of KubeVirt's CR. */
interface Configuration {
  readonly developerConfiguration?: {
    readonly useEmulation?: boolean;
    readonly featureGates?: readonly string[];
    readonly disabledFeatureGates?: readonly string[];
  };
  readonly network?: { readonly binding?: object };
}

/** @throws Failure part-missing where KubeVirt or a part of the nodes is missing */
export async function openKubeVirtRig(run: LabRun): Promise<KubeVirtRig> {
  const { virtctl, install } = kubeVirtParts(process.env);
  const cluster = install === undefined ? await openCluster(run) : await startKubeVirtNodes(run, install);
  const kubectl = (command: string) => cluster.sh(`kubectl ${command}`);
  const inEach = async (selector: string, command: string) => {
    const pods = await kubectl(`${SWITCHES} get pods --selector ${selector} --output name`);
    const outputs: string[] = [];
    for (const pod of pods.trim().split("\n"))
      outputs.push(await kubectl(`${SWITCHES} exec --stdin ${pod} ${command}`));
    return outputs;
  };
  const onNodes: KubeVirtRig["onNodes"] = (script) =>
    inEach("lab=node", `-- nsenter --target=1 --mount --net sh -e <<'END'\n${script}\nEND`);
  const rig = {
    ...{ cluster, run, kubectl, onNodes, virtctlPath: virtctl },
    virtctl: (command: string) => cluster.sh(`${virtctl} --namespace tests ${command}`),
    onSwitches: (command: string) =>
      inEach("app.kubernetes.io/name=ovs-dpdk", `--container ovs-vswitchd -- ${command}`),
    restore: async () => undefined,
  };
  run.progress("daemon, IPAM and switches");
  for (const { section, script } of quickStartSteps()) if (section.startsWith("3.")) await cluster.sh(script);
  const before = await configureKubeVirt(rig);
  const definitions = await kubectl("get customresourcedefinitions --output name");
  if (!definitions.includes(`/${IPAM_CLAIM_DEFINITION.metadata.name}\n`))
    await apply(cluster, IPAM_CLAIM_DEFINITION);
  await cluster.sh(`
    helm upgrade kube-vhostuser deploy/chart/kube-vhostuser --namespace kube-vhostuser --set ${VALUES.join()} --wait --timeout=5m
    kubectl create namespace tests
    kubectl apply -f deploy/examples/network.yaml -f deploy/examples/networks/persistent.yaml`);
  await connectSwitches(rig);
  return {
    ...rig,
    restore: async () => {
      await onNodes(`ip link delete ${LINK}`);
      await setConfiguration(rig, before);
    },
  };
}

/** Registers the binding as deploy/kubevirt does, beside what KubeVirt has; gives its configuration before that. */
async function configureKubeVirt(rig: KubeVirtRig): Promise<Configuration> {
  const { kubectl } = rig;
  const read = async () => JSON.parse(await kubectl(`${KUBEVIRT} get kubevirt kubevirt --output json`));
  const before: Configuration = (await read()).spec.configuration ?? {};
  const ours: Configuration = parse(await readFile(join(PROJECT, "deploy/kubevirt/kubevirt-cr.yaml"), "utf8"))
    .spec.configuration;
  const [developer, added] = [before.developerConfiguration, ours.developerConfiguration];
  const together = (...lists: readonly (readonly string[] | undefined)[]) => [
    ...new Set(lists.flatMap((list) => list ?? [])),
  ];
  await setConfiguration(rig, {
    ...before,
    developerConfiguration: {
      ...developer,
      featureGates: together(developer?.featureGates, ["NetworkDevicesWithDRA"]),
      disabledFeatureGates: together(developer?.disabledFeatureGates, added?.disabledFeatureGates),
    },
    network: { ...before.network, binding: { ...before.network?.binding, ...ours.network?.binding } },
  });
  await eventually("KubeVirt has its configuration", async () => {
    const { metadata, status } = await read();
    return status.observedGeneration === metadata.generation;
  });
  await kubectl(`${KUBEVIRT} wait kubevirt/kubevirt --for=condition=Available --timeout=9m`);
  if (developer?.useEmulation === true) await labelForMigration(rig);
  return before;
}

async function setConfiguration({ kubectl }: KubeVirtRig, value: Configuration): Promise<void> {
  const patch = JSON.stringify([{ op: "add", path: "/spec/configuration", value }]);
  await kubectl(`${KUBEVIRT} patch kubevirt kubevirt --type=json --patch '${patch}'`);
}

/**
 * A migration's target must have the labels of the CPU model that KubeVirt read on the source. Under emulation it gives no
 * node those labels, though the emulated model is the same on all.
 */
async function labelForMigration({ kubectl }: KubeVirtRig): Promise<void> {
  const nodes = async () => (JSON.parse(await kubectl("get nodes --output json")) as Nodes).items;
  const modelOf = (labels: object) =>
    Object.keys(labels).find((label) => label.startsWith(`host-model-cpu.${LABELS}`));
  await eventually("virt-handler has labelled the nodes", async () =>
    (await nodes()).every(({ metadata }) => modelOf(metadata.labels) !== undefined),
  );
  // Or virt-handler would remove the labels.
  await kubectl("annotate --overwrite nodes --all node-labeller.kubevirt.io/skip-node=true");
  for (const { metadata } of await nodes()) {
    const model = modelOf(metadata.labels)?.split("/")[1] ?? "";
    const required = `host-model-required-features.${LABELS}`;
    const features = Object.keys(metadata.labels)
      .filter((label) => label.startsWith(required))
      .map((label) => `cpu-feature.${LABELS}${label.slice(required.length)}=true`);
    await kubectl(
      `label --overwrite node ${metadata.name} cpu-model-migration.${LABELS}${model}=true ${features.join(" ")}`,
    );
  }
}

/** Starts a pod on each node that works on the node, and connects the bridges by a tunnel of the nodes' kernels. */
async function connectSwitches({ cluster, kubectl, onNodes, onSwitches }: KubeVirtRig): Promise<void> {
  const path = "{.spec.template.spec.containers[0].image}";
  await apply(
    cluster,
    nodePods(await kubectl(`${SWITCHES} get daemonset ovs-dpdk --output jsonpath='${path}'`)),
  );
  await kubectl(`${SWITCHES} rollout status daemonset/node --timeout=3m`);
  const { items } = JSON.parse(
    await kubectl("get nodes --selector kube-vhostuser/switch=ovs-dpdk --output json"),
  ) as Nodes;
  const addresses = items.map(
    ({ status }) => status.addresses.find(({ type }) => type === "InternalIP")?.address ?? "",
  );
  if (addresses.length !== 2)
    throw new Error(`the tests need two nodes with a switch, not ${addresses.length}`);
  const [one, other] = addresses;
  // Each node finds out which of the two it is.
  await onNodes(`
    if ip -o address | grep -qF ' ${one}/'; then ends='local ${one} remote ${other}'; else ends='local ${other} remote ${one}'; fi
    ip link add ${LINK} type vxlan id 7256 dstport 4790 $ends
    ip link set ${LINK} addrgenmode none up`);
  await onSwitches(`ovs-vsctl --may-exist add-port br-dpdk ${LINK}`);
}

/** @param image with nsenter and sleep */
function nodePods(image: string): object {
  const labels = { lab: "node" };
  const container = {
    ...{ name: "node", image, command: ["sleep", "infinity"] },
    securityContext: { privileged: true, runAsUser: 0 },
  };
  const spec = {
    ...{ hostPID: true, terminationGracePeriodSeconds: 0, containers: [container] },
    nodeSelector: { "kube-vhostuser/switch": "ovs-dpdk" },
    tolerations: [{ operator: "Exists" }],
  };
  return {
    ...{ apiVersion: "apps/v1", kind: "DaemonSet", metadata: { name: "node", namespace: "openvswitch" } },
    spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
  };
}
