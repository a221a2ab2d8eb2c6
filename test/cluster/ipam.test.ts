// Addresses of pools on a real node: programs are killed while pods come and go, and each pod has addresses of its own.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { apply, eventually } from "./claims-cluster.ts";
import { type Cluster, openCluster } from "./cluster.ts";
import { NODE_NAME } from "./kubernetes-node.ts";
import { quickStartSteps } from "./quick-start-page.ts";

const PODS = 6;
/** Other CNI plugins delegate to the executable, too. */
const BRIDGE = {
  ...{ apiVersion: "k8s.cni.cncf.io/v1", kind: "NetworkAttachmentDefinition" },
  metadata: { name: "bridged-pools", namespace: "tests" },
  spec: {
    config: JSON.stringify({
      ...{ cniVersion: "1.0.0", name: "bridged-pools", type: "bridge", bridge: "blue0" },
      ipam: { type: "kube-vhostuser-ipam", pools: ["blue-v4", "blue-v6"] },
    }),
  },
};
const NAMESPACE = "-n kube-vhostuser";
const AGENT_PODS = "--selector=app.kubernetes.io/component=agent";
const AGENT = "[i]pam-agent/main.mjs";
const CONTROLLER = "[i]pam-controller/main.mjs";

describe.skipIf(process.env["KUBECONFIG"])("addresses of pools", () => {
  let run: LabRun;
  let cluster: Cluster;

  beforeAll(async () => {
    run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
    cluster = await openCluster(run);
    for (const { section, script } of quickStartSteps())
      if (section.startsWith("3.")) await cluster.sh(script);
    await cluster.sh(`
      helm upgrade kube-vhostuser deploy/chart/kube-vhostuser --namespace kube-vhostuser --set ipam.enabled=true
      kubectl ${NAMESPACE} rollout status daemonset/kube-vhostuser-ipam-agent --timeout=3m
      kubectl ${NAMESPACE} rollout status deployment/kube-vhostuser-ipam-controller --timeout=3m
      kubectl create namespace tests
      kubectl apply -f deploy/examples/networks/pools.yaml`);
    await apply(cluster, BRIDGE, statefulSet("bridged", "bridged-pools"));
    await apply(cluster, statefulSet("sockets", "addressed-pools", { "vhostuser/sockets": "1" }));
  });
  afterAll(() => run?.close());

  const node = () => {
    if (cluster.node === undefined) throw new Error("needs the node on this machine");
    return cluster.node;
  };
  const kubectl = (command: string) => cluster.sh(`kubectl ${command}`);
  /** SIGKILL, also where it is just being started again. The pattern does not match the shell that looks for it. */
  const killProgram = (pattern: string) =>
    node().machine.sh(`until pid=$(pgrep -o -f '${pattern}'); do sleep 0.2; done; kill -KILL $pid`);
  const scale = (replicas: number) => kubectl(`-n tests scale statefulset --all --replicas=${replicas}`);
  const untilReady = (replicas: number) =>
    eventually(`${replicas} pods of each kind are ready`, async () => {
      const { items } = JSON.parse(await kubectl("-n tests get statefulsets --output json")) as {
        readonly items: readonly { status: { replicas: number; readyReplicas?: number } }[];
      };
      return items.every(
        ({ status }) => status.replicas === replicas && (status.readyReplicas ?? 0) === replicas,
      );
    });
  /** Addresses of each pod, by its name, as Multus reported them. */
  const addresses = async (): Promise<ReadonlyMap<string, readonly string[]>> => {
    const { items } = JSON.parse(await kubectl("-n tests get pods --output json")) as {
      readonly items: readonly { readonly metadata: { name: string; annotations: Record<string, string> } }[];
    };
    return new Map(
      items.map(({ metadata: { name, annotations } }) => {
        const status = JSON.parse(annotations["k8s.v1.cni.cncf.io/network-status"] ?? "[]") as {
          readonly interface: string;
          readonly ips: readonly string[];
        }[];
        return [name, status.find((one) => one.interface === "net1")?.ips ?? []];
      }),
    );
  };
  /** Each pod has an address of each pool, which no other pod has. */
  const expectUnique = async (replicas: number) => {
    const all = await addresses();
    expect(all.size).toBe(2 * replicas);
    for (const [pod, ips] of all) {
      expect(ips, pod).toHaveLength(2);
      expect(ips[0], pod).toMatch(/^10\.40\.[0-3]\.\d+$/);
      expect(ips[0], pod).not.toMatch(/^10\.40\.0\.(\d|1[0-5])$/);
      expect(ips[1], pod).toMatch(/^fd40::/);
    }
    expect(new Set([...all.values()].flat()).size).toBe(4 * replicas);
  };
  /** Addresses that the agent says are used, of both pools. */
  const used = async () => {
    const ip = await kubectl(
      `${NAMESPACE} get pods ${AGENT_PODS} --output jsonpath={.items[0].status.podIP}`,
    );
    const metrics = await (await node().machine.sh(`curl -sf http://${ip}:9419/metrics`)).stdout;
    return [...metrics.matchAll(/^vhostuser_ipam_node_addresses\{.*state="used".*\} (\d+)$/gm)].reduce(
      (sum, [, count]) => sum + Number(count),
      0,
    );
  };

  it("are each pod's own, with our CNI plugin and with another one", async () => {
    await scale(PODS);
    await untilReady(PODS);
    await expectUnique(PODS);
    await eventually("the agent counts them", async () => (await used()) === 4 * PODS);
  });

  it.each([
    ["the agent is killed", () => killProgram(AGENT)],
    ["the controller is killed", () => killProgram(CONTROLLER)],
    [
      "the API server is killed",
      async () => {
        await node().kill("apiserver");
        await node().restart("apiserver");
      },
    ],
    [
      "kubelet is killed",
      async () => {
        await node().kill("kubelet");
        await node().restart("kubelet");
      },
    ],
  ])("stay unique where %s while pods go and others come", async (_, kill) => {
    const kept = [...(await addresses())].filter(([name]) => Number(name.split("-")[1]) < PODS / 2);
    await scale(PODS / 2);
    await kill();
    await scale(PODS);
    await kill();
    await untilReady(PODS);
    await expectUnique(PODS);
    const now = await addresses();
    for (const [name, ips] of kept) expect(now.get(name)).toEqual(ips);
    await eventually("no address is leaked", async () => (await used()) === 4 * PODS);
  });

  it("are allocated again for the pod's next sandbox, and those of the former one are released", async () => {
    await node().killSandbox("bridged-1");
    await eventually("its containers are restarted", async () => {
      const path = "{.status.containerStatuses[*].restartCount}";
      return (await kubectl(`-n tests get pod/bridged-1 --output jsonpath=${path}`)) !== "0";
    });
    await untilReady(PODS);
    await expectUnique(PODS);
    await eventually("no address is leaked", async () => (await used()) === 4 * PODS);
  });

  it("cannot be taken with the token of another node's agent", async () => {
    const blocks = JSON.parse(await kubectl("get addressblocks --output json")) as {
      readonly items: readonly {
        apiVersion: string;
        kind: string;
        metadata: { name: string };
        spec: object;
      }[];
    };
    const [own] = blocks.items;
    if (own === undefined) throw new Error("the node has a block");
    expect(own.spec).toMatchObject({ owner: { kind: "Node", name: NODE_NAME } });
    // What an attacker on this node can read.
    const foreign = {
      ...{ apiVersion: own.apiVersion, kind: own.kind },
      metadata: { name: "default.10-40-3-240.28" },
      spec: {
        ...own.spec,
        ...{ cidr: "10.40.3.240/28", owner: { kind: "Node", name: "node-2", uid: "uid-2", journal: "j" } },
      },
    };
    const words = "must not write blocks of another owner";
    const attempt = (command: string, input: object) =>
      cluster.sh(`
        uid=$(kubectl ${NAMESPACE} get pods ${AGENT_PODS} --output jsonpath={.items[0].metadata.uid})
        token=$(cat /var/lib/kubelet/pods/$uid/volumes/kubernetes.io~projected/api-access/token)
        kubectl --token="$token" ${command} 2>&1 <<'END' || true
${JSON.stringify(input)}
END`);
    expect(await attempt("create -f -", foreign)).toContain(words);
    await apply(cluster, foreign);
    expect(await attempt("delete addressblock default.10-40-3-240.28", {})).toContain(words);
    await kubectl("delete addressblock default.10-40-3-240.28");
  });

  it("are all free when the pods are gone", async () => {
    await scale(0);
    await eventually("no pod is left", async () => (await addresses()).size === 0);
    await eventually("no address is used", async () => (await used()) === 0);
  });
});

/** Idle pods with one interface of a network. */
function statefulSet(
  name: string,
  network: string,
  resources: Readonly<Record<string, string>> = {},
): object {
  const networks = JSON.stringify([{ name: network, interface: "net1" }]);
  return {
    ...{ apiVersion: "apps/v1", kind: "StatefulSet", metadata: { name, namespace: "tests" } },
    spec: {
      ...{ replicas: 0, serviceName: name, podManagementPolicy: "Parallel" },
      selector: { matchLabels: { app: name } },
      template: {
        metadata: { labels: { app: name }, annotations: { "k8s.v1.cni.cncf.io/networks": networks } },
        spec: {
          terminationGracePeriodSeconds: 0,
          containers: [
            {
              ...{ name: "idle", image: "localhost/example-testpmd:24.11", command: ["sleep", "infinity"] },
              resources: { limits: resources },
            },
          ],
        },
      },
    },
  };
}
