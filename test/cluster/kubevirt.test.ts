// Two VMs of a real KubeVirt on two nodes: traffic, live migration, restart, and our parts killed under them.
import { afterAll, beforeAll, expect, it } from "vitest";
import type { PingFigures } from "../guest/guest.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { eventually } from "./claims-cluster.ts";
import { versionsOf, writeResults } from "./kubevirt-results.ts";
import { GUEST_IMAGE, type KubeVirtRig, openKubeVirtRig } from "./kubevirt-rig.ts";
import { KubeVirtVm, type MigrationState, processesWith } from "./kubevirt-vm.ts";
import { quickStartSteps } from "./quick-start-page.ts";

/** Of all that is started and installed, on a busy machine. */
const INSTALL_LIMIT_MS = 3_600_000;
const TEST_LIMIT_MS = 1_800_000;
const MIGRATIONS = Number(process.env["KUBEVIRT_MIGRATIONS"] ?? 3);
/** Programs of our image. */
const PROGRAMS = "/opt/kube-vhostuser/dist/";

let run: LabRun;
let rig: KubeVirtRig;
let moving: KubeVirtVm;
let peer: KubeVirtVm;
const results: Record<string, unknown> = {};

beforeAll(async () => {
  run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
  rig = await openKubeVirtRig(run);
  moving = new KubeVirtVm(rig, "moving", "10.10.0.1/24", "02:00:00:00:0a:01");
  peer = new KubeVirtVm(rig, "peer", "10.10.0.2/24");
}, INSTALL_LIMIT_MS);

afterAll(async () => {
  moving?.close();
  peer?.close();
  await writeResults(results);
  await run?.close();
});

/** What a VM's pings to the other one saw while something was done. At least one is answered before and after. */
async function pinging(from: KubeVirtVm, to: KubeVirtVm, during: () => Promise<unknown>) {
  const address = to.address.split("/")[0] ?? "";
  await from.guest.waitForPeer(address, 120_000);
  const pings = await from.guest.startPing(address, 10);
  await during();
  await from.guest.waitForPeer(address, 120_000);
  return await pings.stop();
}

/** A migration while the other VM pings it. */
async function migrate(vm: KubeVirtVm, other: KubeVirtVm): Promise<MigrationState & PingFigures> {
  const source = await vm.node();
  let state: MigrationState = {};
  const pings = await pinging(other, vm, async () => {
    state = await vm.migrate();
  });
  expect(state.targetNode).not.toBe(source);
  expect(await vm.node()).toBe(state.targetNode);
  const { sourceNode, targetNode, startTimestamp, endTimestamp } = state;
  return { sourceNode, targetNode, startTimestamp, endTimestamp, ...pings } as MigrationState & PingFigures;
}

/** Ports of VMs that the switches have. */
const ports = async () =>
  (await rig.onSwitches("ovs-vsctl list-ports br-dpdk")).flatMap((text) => text.match(/^vhu.*/gm) ?? []);

it(
  "VMs on two nodes reach each other",
  async () => {
    await moving.start();
    await peer.start();
    expect(await peer.node()).not.toBe(await moving.node());
    await peer.guest.waitForPeer("10.10.0.1", 120_000);
    results["versions"] = await versionsOf(rig, peer);
    // A migration's target has its kernel by the digest that the source has.
    const path = `{.status.initContainerStatuses[?(@.image=="${GUEST_IMAGE}")].imageID}`;
    const digest = await rig.kubectl(`-n tests get ${await moving.pod()} --output jsonpath='${path}'`);
    expect(digest).toMatch(/^sha256:/);
    await rig.tagImage(GUEST_IMAGE, `localhost/lab-guest@${digest}`);
  },
  TEST_LIMIT_MS,
);

it(
  `a VM migrates ${MIGRATIONS} times, and stays connected`,
  async () => {
    const migrations: object[] = [];
    results["migrations"] = migrations;
    for (let count = 0; count < MIGRATIONS; count += 1) migrations.push(await migrate(moving, peer));
  },
  TEST_LIMIT_MS,
);

it(
  "a VM without a MAC in its manifest keeps it after a restart and a migration",
  async () => {
    const mac = await peer.mac();
    await peer.restart();
    expect(await peer.mac()).toBe(mac);
    results["migrationWithoutMac"] = await migrate(peer, moving);
    expect(await peer.mac()).toBe(mac);
    expect((await peer.guest.interfaceOf(mac)).mtu).toBe(1500);
  },
  TEST_LIMIT_MS,
);

it(
  "our daemons and sidecars are killed, and the VMs stay connected; later a migration succeeds",
  async () => {
    let killed = 0;
    const pings = await pinging(peer, moving, async () => {
      const cgroups = rig.machines.map(({ cgroup }) => `${cgroup}/`);
      const processes = processesWith(PROGRAMS, cgroups);
      killed = processes.length;
      for (const pid of processes) process.kill(pid, "SIGKILL");
      await eventually("no killed process runs", async () =>
        processesWith(PROGRAMS, cgroups).every((pid) => !processes.includes(pid)),
      );
      // kubelet reports late that they ended: containers that were started again count.
      await eventually("the daemons are back", async () => {
        const path = "{.items[*].status.containerStatuses[?(@.restartCount>0)].ready}";
        const pods = "get pods --selector app.kubernetes.io/name=kube-vhostuser";
        return (await rig.kubectl(`-n kube-vhostuser ${pods} --output jsonpath='${path}'`)) === "true true";
      });
    });
    // A daemon on each node, and the sidecar of each VM.
    expect(killed).toBeGreaterThanOrEqual(4);
    for (const vm of [moving, peer]) expect((await vm.vmi()).status?.phase).toBe("Running");
    const migration = await migrate(moving, peer);
    results["kills"] = { killed, pings, migration };
  },
  TEST_LIMIT_MS,
);

it(
  "an interface that is added to a running VM is ignored until it restarts",
  async () => {
    const { uid } = (await moving.vmi()).metadata;
    const names = async () => (await moving.vmi()).status?.interfaces?.map(({ name }) => name);
    const operations = [
      {
        ...{ op: "add", path: "/spec/template/spec/domain/devices/interfaces/-" },
        value: { name: "net2", binding: { name: "vhostuser" } },
      },
      {
        ...{ op: "add", path: "/spec/template/spec/networks/-" },
        value: { name: "net2", multus: { networkName: "vhostuser-network" } },
      },
    ];
    const pings = await pinging(peer, moving, async () => {
      await rig.kubectl(`-n tests patch vm moving --type=json --patch '${JSON.stringify(operations)}'`);
      await eventually("KubeVirt has read the change", async () => {
        const path = "{.metadata.generation} {.status.desiredGeneration}";
        const [wanted, read] = (
          await rig.kubectl(`-n tests get vm moving --output jsonpath='${path}'`)
        ).split(" ");
        return wanted === read;
      });
    });
    expect((await moving.vmi()).metadata.uid).toBe(uid);
    expect(await names()).toEqual(["default", "net1"]);
    // KubeVirt hot-plugs the bindings bridge and SR-IOV only; 1.9 does not mark the VM with RestartRequired.
    const conditions = '{.status.conditions[?(@.type=="RestartRequired")].message}';
    const message = await rig.kubectl(`-n tests get vm moving --output jsonpath='${conditions}'`);
    results["hotplug"] = { pings, restartRequired: message === "" ? "KubeVirt does not say so" : message };
    await moving.restart();
    await eventually(
      "KubeVirt reports the interface",
      async () => (await names())?.includes("net2") === true,
    );
    await peer.guest.waitForPeer("10.10.0.1", 120_000);
  },
  TEST_LIMIT_MS,
);

it(
  "VMs that are deleted leave no port and no directory, and all can be removed",
  async () => {
    // Of `moving` two.
    expect(await ports()).toHaveLength(3);
    await rig.kubectl("-n tests delete vm --all --timeout=5m");
    await eventually("no VM has a port", async () => (await ports()).length === 0);
    const directories = async () => {
      const found = await Promise.all(
        rig.machines.map((machine) => machine.sh("find /var/run/vhostuser -mindepth 1 -maxdepth 1 -type d")),
      );
      return found.map(({ stdout }) => stdout).join("");
    };
    await eventually("no directory is left", async () => (await directories()) === "");
    const steps = quickStartSteps().filter(({ section }) => section.startsWith("6."));
    expect(steps).toHaveLength(1);
    for (const { script, output } of steps) expect(await rig.cluster.sh(script), script).toMatch(output);
  },
  TEST_LIMIT_MS,
);
