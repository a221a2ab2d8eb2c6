// Parts of a node are killed, restarted and rebooted under two pods that exchange frames.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { type Cluster, openCluster } from "./cluster.ts";
import { quickStartSteps } from "./quick-start-page.ts";

const DAEMON = "-n kube-vhostuser exec daemonset/kube-vhostuser -- vhostuserctl";
/** Of a pod that waits for a device: its last attempt's backoff included. */
const LIMIT_MS = 240_000;

let run: LabRun;
let cluster: Cluster;

beforeAll(async () => {
  run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
  cluster = await openCluster(run);
  for (const { section, script } of quickStartSteps()) {
    if (/^[34]\./.test(section)) await cluster.sh(script);
  }
});

afterAll(() => run?.close());

const kubectl = (command: string) => cluster.sh(`kubectl ${command}`);
const eventually = (what: string, poll: () => Promise<boolean>) =>
  waitUntil(() => poll().catch(() => false), { what, limitMs: LIMIT_MS, everyMs: 500 });

/** Frames that came back to the generator since its container started. */
async function received(): Promise<number> {
  const log = await kubectl("-n tests logs traffic-0 --tail=40");
  return Number([...log.matchAll(/RX-packets: (\d+)/g)].at(-1)?.[1] ?? 0);
}

async function untilFramesReturn(): Promise<void> {
  let before = await received().catch(() => 0);
  await eventually("frames return", async () => {
    const now = await received();
    if (now > before) return true;
    before = Math.min(before, now); // a new container counts from 0
    return false;
  });
}

/** Nothing is wrong, and kubelet has all devices to give. */
async function untilHealthy(): Promise<void> {
  await eventually("doctor finds no problem", async () =>
    /^no problems$/m.test(await kubectl(`${DAEMON} doctor`)),
  );
  await eventually("64 sockets are allocatable", async () => {
    const path = "{.items[*].status.allocatable['vhostuser/sockets']}";
    return (await kubectl(`get nodes --output jsonpath="${path}"`)).split(" ").includes("64");
  });
}

/** How often the containers of pods were restarted: `traffic-0 0`. */
const restarts = (namespace: string) =>
  kubectl(
    `-n ${namespace} get pods --output jsonpath='{range .items[*]}{.metadata.uid} {.status.containerStatuses[*].restartCount}{"\\n"}{end}'`,
  );

/** A third pod starts, gets its port, and goes. */
async function untilPodComesAndGoes(): Promise<void> {
  await kubectl("-n tests scale statefulset/traffic --replicas=3");
  await kubectl("-n tests rollout status statefulset/traffic --timeout=3m");
  await eventually("it is connected", async () =>
    /link +ok/.test(await kubectl(`${DAEMON} trace tests/traffic-2`)),
  );
  await kubectl("-n tests scale statefulset/traffic --replicas=2");
  await kubectl("-n tests wait --for=delete pod/traffic-2 --timeout=2m");
  await untilPorts(2);
}

/** The node has this many interfaces, and no leftover of another. */
async function untilPorts(count: number): Promise<void> {
  await eventually(`${count} interfaces`, async () => {
    const { interfaces } = JSON.parse(await kubectl(`${DAEMON} status --output json`));
    return interfaces.length === count;
  });
  expect(await kubectl(`${DAEMON} doctor`)).toMatch(/leftovers +ok +none/);
}

it("a pod that is deleted while the daemon is away leaves no port and no directory", async () => {
  const selector = (value: string) =>
    `patch daemonset/kube-vhostuser -p '{"spec":{"template":{"spec":{"nodeSelector":{"away":${value}}}}}}'`;
  await kubectl(`-n kube-vhostuser ${selector('"yes"')}`);
  await kubectl(
    "-n kube-vhostuser wait --for=delete pod --selector=app.kubernetes.io/name=kube-vhostuser --timeout=2m",
  );
  await untilFramesReturn();
  await kubectl("-n tests scale statefulset/traffic --replicas=1");
  await kubectl("-n tests wait --for=delete pod/traffic-1 --timeout=2m");
  await kubectl(`-n kube-vhostuser ${selector("null")}`);
  await kubectl("-n kube-vhostuser rollout status daemonset/kube-vhostuser --timeout=3m");
  await untilPorts(1);
  await kubectl("-n tests scale statefulset/traffic --replicas=2");
  await kubectl("-n tests rollout status statefulset/traffic --timeout=3m");
  await untilFramesReturn();
  await untilHealthy();
});

/** The processes of the cluster that KUBECONFIG names are not ours to kill: these tests are then shown as skipped. */
const isOurNode = !process.env["KUBECONFIG"];

describe.runIf(isOurNode)("killed on the node, and started again", () => {
  /** SIGKILL for a program in a container. */
  const killProgram = async (pattern: string) => {
    const { stdout } = await nodeOf(cluster).machine.sh(`pgrep -o -f '${pattern}'`);
    await nodeOf(cluster).machine.exec("kill", ["-KILL", stdout.trim()]);
  };

  it.each(["kubelet", "containerd"] as const)("%s: pods run on, and the next one starts", async (part) => {
    const before = await restarts("tests");
    await nodeOf(cluster).kill(part);
    await nodeOf(cluster).restart(part);
    await untilHealthy();
    await untilFramesReturn();
    await untilPodComesAndGoes();
    expect(await restarts("tests")).toBe(before);
  });

  it("the daemon: pods run on, and the next one starts", async () => {
    const [before, ours] = [await restarts("tests"), await restarts("kube-vhostuser")];
    await killProgram("dist/daemon/main.mjs");
    await eventually(
      "the daemon's container is restarted",
      async () => (await restarts("kube-vhostuser")) !== ours,
    );
    await untilHealthy();
    await untilFramesReturn();
    await untilPodComesAndGoes();
    expect(await restarts("tests")).toBe(before);
  });

  it("the switch: pods are connected again", async () => {
    const [before, switches] = [await restarts("tests"), await restarts("openvswitch")];
    await killProgram("ovs-vswitchd unix:");
    await eventually(
      "the switch's container is restarted",
      async () => (await restarts("openvswitch")) !== switches,
    );
    await untilHealthy();
    await untilFramesReturn();
    await untilPodComesAndGoes();
    expect(await restarts("tests")).toBe(before);
  });

  it("the root, unmounted: no pod gets a device, until daemon and switch are started again", async () => {
    const path = "{.items[*].status.allocatable['vhostuser/sockets']}";
    await nodeOf(cluster).machine.sh("umount --lazy /var/run/vhostuser");
    await eventually("no socket is allocatable", async () =>
      (await kubectl(`get nodes --output jsonpath="${path}"`)).split(" ").includes("0"),
    );
    const status = (await kubectl(`${DAEMON} status || true`)).replace(/\s+/g, " ");
    expect(status).toContain("unmounted on the node");
    expect(status).toContain("restart the switch's pod openvswitch/ovs-dpdk");
    await kubectl("-n kube-vhostuser rollout restart daemonset/kube-vhostuser");
    await kubectl("-n kube-vhostuser rollout status daemonset/kube-vhostuser --timeout=3m");
    // These have their sockets in the old one.
    expect((await kubectl(`${DAEMON} doctor || true`)).replace(/\s+/g, " ")).toMatch(
      /tests\/traffic-0: \S+ was made again/,
    );
    await kubectl("-n openvswitch rollout restart daemonset/ovs-dpdk");
    await kubectl("-n openvswitch rollout status daemonset/ovs-dpdk --timeout=3m");
    await kubectl("-n tests delete pods --all --timeout=2m");
    await kubectl("-n tests rollout status statefulset/traffic --timeout=3m");
    await untilHealthy();
    await untilFramesReturn();
    await untilPodComesAndGoes();
  });

  it("the node itself: pods are back after its reboot, on sockets of their own", async () => {
    await nodeOf(cluster).reboot();
    await untilHealthy();
    await eventually(
      "both pods run",
      async () =>
        (await kubectl("-n tests get statefulset/traffic --output jsonpath={.status.readyReplicas}")) === "2",
    );
    await untilFramesReturn();
    await untilPorts(2);
    await untilPodComesAndGoes();
  });
});

function nodeOf({ node }: Cluster): NonNullable<Cluster["node"]> {
  if (node === undefined) throw new Error("needs the node on this machine");
  return node;
}
