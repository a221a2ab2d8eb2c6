// kubelet's topology manager with the policy single-numa-node, on a node that it sees two NUMA nodes of.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { apply, eventually } from "./claims-cluster.ts";
import { type Cluster, openCluster } from "./cluster.ts";
import { quickStartSteps } from "./quick-start-page.ts";

/** Resources of pools of the same switch, by their NUMA node. */
const POOLS = { near: 0, beside: 0, far: 1 } as const;

describe.skipIf(process.env["KUBECONFIG"])("sockets of pools that are near to NUMA nodes", () => {
  let run: LabRun;
  let cluster: Cluster;

  beforeAll(async () => {
    run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
    cluster = await openCluster(run, {}, { hasTwoNumaNodes: true });
    for (const { section, script } of quickStartSteps())
      if (section.startsWith("3.")) await cluster.sh(script);
    const pools = Object.entries(POOLS).map(([name, numaNode]) => [
      name,
      {
        ...{ resource: `vhostuser/${name}`, capacity: 4, numaNode },
        dataplane: { type: "ovs-dpdk", bridge: "br-dpdk" },
      },
    ]);
    const values = { config: { pools: { sockets: null, ...Object.fromEntries(pools) } } };
    await cluster.sh(`
      helm upgrade kube-vhostuser deploy/chart/kube-vhostuser --namespace kube-vhostuser --values - <<'END'
${JSON.stringify(values)}
END
      kubectl -n kube-vhostuser rollout status daemonset/kube-vhostuser --timeout=3m
      kubectl create namespace tests`);
    await eventually("their devices are allocatable", async () => {
      const path = "{.items[*].status.allocatable['vhostuser/far']}";
      return (await cluster.sh(`kubectl get nodes --output jsonpath="${path}"`)) === "4";
    });
  });
  afterAll(() => run?.close());

  /** What became of a pod whose container asks for a device of each resource. */
  const outcomeOf = async (name: string, ...wanted: readonly (keyof typeof POOLS)[]): Promise<string> => {
    const resources = Object.fromEntries(wanted.map((one) => [`vhostuser/${one}`, "1"]));
    await apply(cluster, {
      ...{ apiVersion: "v1", kind: "Pod", metadata: { name, namespace: "tests" } },
      spec: {
        terminationGracePeriodSeconds: 0,
        containers: [
          {
            ...{ name: "idle", image: "localhost/example-testpmd:24.11", command: ["sleep", "infinity"] },
            resources: { limits: resources },
          },
        ],
      },
    });
    const status = () =>
      cluster.sh(`kubectl -n tests get pod/${name} --output jsonpath='{.status.phase} {.status.reason}'`);
    await eventually("the pod is admitted or not", async () => !(await status()).startsWith("Pending"));
    return (await status()).trim();
  };

  it("go together to one container where their node is the same", async () => {
    expect(await outcomeOf("same", "near", "beside")).toBe("Running");
    expect(await outcomeOf("one", "far")).toBe("Running");
  });

  it("of two nodes are not for one container: kubelet refuses the pod", async () => {
    expect(await outcomeOf("both", "near", "far")).toBe("Failed TopologyAffinityError");
  });
});
