import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { type Cluster, openCluster } from "./cluster.ts";
import type { KubernetesParts } from "./kubernetes-parts.ts";
import { quickStartSteps } from "./quick-start-page.ts";

/** A cluster with the daemon and switch of the quick start, and ResourceClaims on. */
export interface ClaimsCluster {
  readonly run: LabRun;
  readonly cluster: Cluster;
  /** Runs `vhostuserctl`, and gives what it prints. */
  ctl(command: string): Promise<string>;
  /** Runs `ovs-vsctl` in the switch's pod. */
  vsctl(command: string): Promise<string>;
  /** The daemon's interfaces. */
  interfaces(): Promise<readonly unknown[]>;
  close(): Promise<void>;
}

/** Waits for what kubelet may take some attempts for; an error of a command counts as not yet. */
export const eventually = (what: string, poll: () => Promise<boolean>) =>
  waitUntil(() => poll().catch(() => false), { what, limitMs: 240_000, everyMs: 500 });

/** @param parts of the node that are not those of the environment */
export async function openClaimsCluster(parts?: Partial<KubernetesParts>): Promise<ClaimsCluster> {
  const run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
  try {
    const cluster = await openCluster(run, parts);
    for (const { section, script } of quickStartSteps())
      if (section.startsWith("3.")) await cluster.sh(script);
    await cluster.sh(`
      helm upgrade kube-vhostuser deploy/chart/kube-vhostuser --namespace kube-vhostuser \\
        --set dra.enabled=true --set config.pools.sockets.claims.ports=32
      kubectl -n kube-vhostuser rollout status daemonset/kube-vhostuser --timeout=3m
      kubectl create namespace tests
      kubectl apply -f deploy/examples/network.yaml`);
    const ctl = (command: string) =>
      cluster.sh(`kubectl -n kube-vhostuser exec daemonset/kube-vhostuser -- vhostuserctl ${command}`);
    const vsctl = (command: string) =>
      cluster.sh(
        `kubectl -n openvswitch exec daemonset/ovs-dpdk --container ovs-vswitchd -- ovs-vsctl ${command}`,
      );
    const interfaces = async () => JSON.parse(await ctl("status --output json")).interfaces;
    return { ...{ run, cluster, ctl, vsctl, interfaces }, close: () => run.close() };
  } catch (error) {
    await run.close();
    throw error;
  }
}

/** A template for claims of one port, of the chart's DeviceClass. */
export const PORT_TEMPLATE = {
  ...{ apiVersion: "resource.k8s.io/v1", kind: "ResourceClaimTemplate" },
  metadata: { name: "port", namespace: "tests" },
  spec: {
    spec: { devices: { requests: [{ name: "port", exactly: { deviceClassName: "vhostuser" } }] } },
  },
};

/** A pod with such a claim that does nothing with its port. */
export function idlePod(name: string, annotations: Readonly<Record<string, string>> = {}): object {
  return {
    ...{ apiVersion: "v1", kind: "Pod", metadata: { name, namespace: "tests", annotations } },
    spec: {
      terminationGracePeriodSeconds: 0,
      resourceClaims: [{ name: "fast", resourceClaimTemplateName: "port" }],
      containers: [
        {
          ...{ name: "idle", image: "localhost/example-testpmd:24.11", command: ["sleep", "infinity"] },
          resources: { claims: [{ name: "fast" }] },
        },
      ],
    },
  };
}

/** Creates or changes objects. */
export async function apply({ sh }: Cluster, ...objects: readonly object[]): Promise<void> {
  await sh(
    `kubectl apply -f - <<'END'\n${JSON.stringify({ apiVersion: "v1", kind: "List", items: objects })}\nEND`,
  );
}
