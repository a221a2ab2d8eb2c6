// Pods by ResourceClaim (DRA), beside pods by extended resource, on a real API server, scheduler and kubelet.
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  apply,
  type ClaimsCluster,
  eventually,
  idlePod,
  openClaimsCluster,
  PORT_TEMPLATE,
} from "./claims-cluster.ts";
import type { Cluster } from "./cluster.ts";

const EXAMPLE = "deploy/examples/claim-pod.yaml";
/** The example for a machine with few cores. */
const SMALL = `sed 's/cpu: "2"/cpu: 100m/' ${EXAMPLE}`;
/** The same without a VLAN, as generator of frames that a pod by extended resource returns. */
const GENERATOR = `${SMALL} | sed 's/deviceClassName: .* }/deviceClassName: vhostuser }/; s/mtu: 9000/mtu: 1500/; s/macswap/flowgen/; s/testpmd-claim/generator/; s/fast-port/generator-port/'`;

let rig: ClaimsCluster;
let cluster: Cluster;

beforeAll(async () => {
  rig = await openClaimsCluster();
  ({ cluster } = rig);
  await apply(cluster, PORT_TEMPLATE);
});

afterAll(() => rig?.close());

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
    /queues +ok/.test(await rig.ctl("trace tests/testpmd-claim")),
  );
  const { items } = JSON.parse(await cluster.sh("kubectl -n tests get resourceclaims --output json"));
  expect(items[0].status.devices).toMatchObject([{ conditions: [{ type: "Ready", status: "True" }] }]);
  expect(await rig.vsctl("--columns=tag find Port tag=100")).toContain("100");
  await cluster.sh("kubectl -n tests delete pod/testpmd-claim --timeout=2m");
  await eventually("its port is gone", async () => (await rig.vsctl("find Port tag=100")) === "");
});

/** What kubelet reports of the device of a pod's container. */
const healthOf = (pod: string) =>
  cluster.sh(
    `kubectl -n tests get pod/${pod} --output jsonpath='{.status.containerStatuses[*].allocatedResourcesStatus[*].resources[*].health}'`,
  );
const isRunning = async (pod: string) =>
  (await cluster.sh(`kubectl -n tests get pod/${pod} --output jsonpath={.status.phase}`)) === "Running";
const untilGone = async () => {
  await eventually("no interface is left", async () => (await rig.interfaces()).length === 0);
  await eventually(
    "no claim is left",
    async () => (await cluster.sh("kubectl -n tests get resourceclaims --output name")) === "",
  );
};

it("kubelet reports a pod's device as unhealthy while its switch is away, and the slice has none", async () => {
  await apply(cluster, idlePod("health"));
  await eventually("the pod runs", () => isRunning("health"));
  await eventually("its device is healthy", async () => (await healthOf("health")) === "Healthy");
  const selector = (value: string) =>
    cluster.sh(
      `kubectl -n openvswitch patch daemonset/ovs-dpdk -p '{"spec":{"template":{"spec":{"nodeSelector":{"away":${value}}}}}}'`,
    );
  const devices = () =>
    cluster.sh("kubectl get resourceslices --output jsonpath='{.items[*].spec.devices[*].name}'");
  await selector('"yes"');
  await eventually("its device is unhealthy", async () => (await healthOf("health")) === "Unhealthy");
  await eventually("no device is offered", async () => (await devices()) === "");
  await selector("null");
  await eventually("its device is healthy again", async () => (await healthOf("health")) === "Healthy");
  await eventually("the device is offered again", async () => (await devices()) === "sockets");
  // Without grace: kubelet unprepares the claim of a pod that the API server has no more.
  await cluster.sh("kubectl -n tests delete pod/health --force --grace-period=0");
  await untilGone();
});

it("a pod that is deleted while the daemon is away waits for it, and leaves nothing", async () => {
  await apply(cluster, idlePod("away"));
  await eventually("the pod runs", () => isRunning("away"));
  const selector = (value: string) =>
    cluster.sh(
      `kubectl -n kube-vhostuser patch daemonset/kube-vhostuser -p '{"spec":{"template":{"spec":{"nodeSelector":{"away":${value}}}}}}'
       kubectl -n kube-vhostuser rollout status daemonset/kube-vhostuser --timeout=3m`,
    );
  await selector('"yes"');
  await cluster.sh(`
    kubectl -n kube-vhostuser wait --for=delete pod --selector=app.kubernetes.io/name=kube-vhostuser --timeout=2m
    kubectl -n tests delete pod/away --wait=false`);
  await apply(cluster, idlePod("next"));
  const events = "kubectl -n tests get events --field-selector involvedObject.name=next";
  await eventually("kubelet misses the driver", async () =>
    /FailedPrepareDynamicResources|FailedScheduling/.test(await cluster.sh(events)),
  );
  await selector("null");
  await eventually(
    "the pod is gone",
    async () => (await cluster.sh("kubectl -n tests get pod/away --ignore-not-found")) === "",
  );
  await eventually("the next one runs", () => isRunning("next"));
  await cluster.sh("kubectl -n tests delete pod/next --timeout=2m");
  await untilGone();
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
  await eventually("no interface is left", async () => (await rig.interfaces()).length === 0);
});
