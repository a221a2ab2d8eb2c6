// Pods by ResourceClaim (DRA), beside pods by extended resource, on a real API server, scheduler and kubelet.
import { afterAll, beforeAll, expect, it } from "vitest";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { type Cluster, openCluster } from "./cluster.ts";
import { quickStartSteps } from "./quick-start-page.ts";

const EXAMPLE = "deploy/examples/claim-pod.yaml";
/** The example for a machine with few cores. */
const SMALL = `sed 's/cpu: "2"/cpu: 100m/' ${EXAMPLE}`;
/** The same without a VLAN, as generator of frames that a pod by extended resource returns. */
const GENERATOR = `${SMALL} | sed 's/deviceClassName: .* }/deviceClassName: vhostuser }/; s/mtu: 9000/mtu: 1500/; s/macswap/flowgen/; s/testpmd-claim/generator/; s/fast-port/generator-port/'`;
const CTL = "kubectl -n kube-vhostuser exec daemonset/kube-vhostuser -- vhostuserctl";

let run: LabRun;
let cluster: Cluster;

beforeAll(async () => {
  run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
  cluster = await openCluster(run);
  for (const { section, script } of quickStartSteps()) if (section.startsWith("3.")) await cluster.sh(script);
  await cluster.sh(`
    helm upgrade kube-vhostuser deploy/chart/kube-vhostuser --namespace kube-vhostuser \\
      --set dra.enabled=true --set config.pools.sockets.claims.ports=32
    kubectl -n kube-vhostuser rollout status daemonset/kube-vhostuser --timeout=3m
    kubectl create namespace tests
    kubectl apply -f deploy/examples/network.yaml`);
});

afterAll(() => run?.close());

const eventually = (what: string, poll: () => Promise<boolean>) =>
  waitUntil(() => poll().catch(() => false), { what, limitMs: 240_000, everyMs: 500 });

async function untilFramesReturn(): Promise<void> {
  const received = async () => {
    const log = await cluster.sh("kubectl -n tests logs generator --tail=40");
    return Number([...log.matchAll(/RX-packets: (\d+)/g)].at(-1)?.[1] ?? 0);
  };
  let before = await received().catch(() => 0);
  await eventually("frames return", async () => {
    const now = await received();
    if (now > before) return true;
    before = now; // a new container counts from 0
    return false;
  });
}

it("half of the pool's sockets are in the node's ResourceSlice, the others stay allocatable", async () => {
  await eventually("32 sockets are allocatable", async () => {
    const path = "{.items[*].status.allocatable['vhostuser/sockets']}";
    return (await cluster.sh(`kubectl get nodes --output jsonpath="${path}"`)) === "32";
  });
  await eventually("a slice", async () => {
    const { items } = JSON.parse(await cluster.sh("kubectl get resourceslices --output json"));
    return items.length === 1 && items[0].spec.devices[0].capacity.ports.value === "32";
  });
});

it("the example's pod runs with its VLAN, and its claim says that it is ready", async () => {
  await cluster.sh(`${SMALL} | kubectl apply -f -
    kubectl -n tests wait pod/testpmd-claim --for=condition=Ready --timeout=3m`);
  await eventually("the switch and the pod are connected", async () =>
    /queues +ok/.test(await cluster.sh(`${CTL} trace tests/testpmd-claim`)),
  );
  const { items } = JSON.parse(await cluster.sh("kubectl -n tests get resourceclaims --output json"));
  expect(items[0].status.devices).toMatchObject([{ conditions: [{ type: "Ready", status: "True" }] }]);
  const ovs = "kubectl -n openvswitch exec daemonset/ovs-dpdk --container ovs-vswitchd -- ovs-vsctl";
  expect(await cluster.sh(`${ovs} --columns=tag find Port tag=100`)).toContain("100");
  await cluster.sh("kubectl -n tests delete pod/testpmd-claim --timeout=2m");
  await eventually("its port is gone", async () => (await cluster.sh(`${ovs} find Port tag=100`)) === "");
});

it("a pod by claim and one by extended resource exchange frames, also after restarts and a reboot", async () => {
  await cluster.sh(`
    sed 's/replicas: 2/replicas: 1/; s/serviceName: traffic/&\\n  ordinals: { start: 1 }/' deploy/quick-start/pods.yaml | kubectl apply -f -
    kubectl -n tests rollout status statefulset/traffic --timeout=3m
    ${GENERATOR} | kubectl apply -f -
    kubectl -n tests wait pod/generator --for=condition=Ready --timeout=3m`);
  await untilFramesReturn();
  await cluster.sh(`kubectl -n kube-vhostuser rollout restart daemonset/kube-vhostuser
    kubectl -n kube-vhostuser rollout status daemonset/kube-vhostuser --timeout=3m`);
  await untilFramesReturn();
  const { node } = cluster;
  if (node !== undefined) {
    await node.kill("kubelet");
    await node.restart("kubelet");
    await untilFramesReturn();
    await node.reboot();
    await untilFramesReturn();
  }
  await cluster.sh("kubectl delete namespace tests --timeout=3m");
  await eventually("no interface is left", async () => {
    const status = JSON.parse(await cluster.sh(`${CTL} status --output json`));
    return status.interfaces.length === 0;
  });
});
