// VMs of a real KubeVirt on two nodes: traffic, live migration, claims, addresses that stay, and our parts killed under them.
import { afterAll, beforeAll, expect, it } from "vitest";
import type { PingFigures } from "../guest/guest.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { apply, eventually } from "./claims-cluster.ts";
import { exampleObjects } from "./example-vm.ts";
import { versionsOf, writeResults } from "./kubevirt-results.ts";
import { type KubeVirtRig, openKubeVirtRig } from "./kubevirt-rig.ts";
import { KubeVirtVm } from "./kubevirt-vm.ts";
import { networksOfExample, onNetwork } from "./kubevirt-vm-manifest.ts";
import { quickStartSteps } from "./quick-start-page.ts";

/** Of all that is started and installed, on a busy machine. */
const INSTALL_LIMIT_MS = 3_600_000;
const TEST_LIMIT_MS = 3_600_000;
const MIGRATIONS = Number(process.env["KUBEVIRT_MIGRATIONS"] ?? 10);

let run: LabRun;
let rig: KubeVirtRig;
let moving: KubeVirtVm;
let peer: KubeVirtVm;
let claimed: KubeVirtVm;
let kept: KubeVirtVm;
const results: Record<string, unknown> = {};

beforeAll(async () => {
  run = await openLabRun({ narrator: { say: (line) => console.log(line) } });
  rig = await openKubeVirtRig(run);
  const network = "vhostuser-network";
  moving = new KubeVirtVm(rig, "moving", onNetwork(network, "02:00:00:00:0a:01"), "10.10.0.1/24");
  peer = new KubeVirtVm(rig, "peer", onNetwork(network), "10.10.0.2/24");
  claimed = new KubeVirtVm(rig, "claimed", await networksOfExample("claim-vm.yaml"), "10.10.0.3/24");
  kept = new KubeVirtVm(rig, "kept", onNetwork("persistent"));
}, INSTALL_LIMIT_MS);

afterAll(async () => {
  for (const vm of [moving, peer, claimed, kept]) vm?.close();
  await writeResults(results);
  await run?.close();
}, TEST_LIMIT_MS);

/** What a VM's pings to the other one saw while something was done. At least one is answered before and after. */
async function pinging(from: KubeVirtVm, { address }: KubeVirtVm, during: () => Promise<unknown>) {
  await from.guest.waitForPeer(address, 120_000);
  const pings = await from.guest.startPing(address, 10);
  await during();
  await from.guest.waitForPeer(address, 120_000);
  return await pings.stop();
}

/** A migration while the other VM pings it. */
async function migrate(vm: KubeVirtVm, other: KubeVirtVm) {
  const source = await vm.node();
  let state: Partial<Awaited<ReturnType<KubeVirtVm["migrate"]>>> = {};
  const pings: PingFigures = await pinging(other, vm, async () => {
    state = await vm.migrate();
  });
  expect(state.targetNode).not.toBe(source);
  expect(await vm.node()).toBe(state.targetNode);
  const { sourceNode, targetNode, startTimestamp, endTimestamp, crashes } = state;
  const figures = { sourceNode, targetNode, startTimestamp, endTimestamp, crashes };
  return { ...figures, downtimeMs: await vm.downtimeMs(), ...pings };
}

/** Ports of VMs that the switches have. */
const ports = async () =>
  (await rig.onSwitches("ovs-vsctl list-ports br-dpdk")).flatMap((text) => text.match(/^vhu.*/gm) ?? []);

const test = (name: string, body: () => Promise<void>) => it(name, body, TEST_LIMIT_MS);

test("VMs on two nodes reach each other", async () => {
  await moving.start();
  await peer.start();
  expect(await peer.node()).not.toBe(await moving.node());
  await peer.guest.waitForPeer(moving.address, 120_000);
  results["versions"] = await versionsOf(rig, peer);
});

test(`a VM migrates ${MIGRATIONS} times, and stays connected`, async () => {
  const migrations: object[] = [];
  results["migrations"] = migrations;
  for (let count = 0; count < MIGRATIONS; count += 1) migrations.push(await migrate(moving, peer));
});

test("a VM without a MAC in its manifest keeps it after a restart and a migration", async () => {
  const mac = await peer.mac();
  await peer.restart();
  expect(await peer.mac()).toBe(mac);
  results["migrationWithoutMac"] = await migrate(peer, moving);
  expect(await peer.mac()).toBe(mac);
  expect((await peer.guest.interfaceOf(mac)).mtu).toBe(1500);
});

test("a VM with its port by a ResourceClaim is reached, and migrates", async () => {
  await apply(rig.cluster, ...(await exampleObjects("claim-vm.yaml", "ResourceClaimTemplate")));
  await claimed.start();
  results["claim"] = await migrate(claimed, peer);
  await claimed.delete();
  const claims = () => rig.kubectl("-n tests get resourceclaims --output name");
  await eventually("its claims are gone", async () => (await claims()) === "");
});

test("a VM with an IPAMClaim gets its address by DHCP, and keeps it when it is stopped and started and when it migrates", async () => {
  await kept.start();
  const { address } = kept;
  const given = await kept.askByDhcp();
  expect(given).toMatch(/^10\.44\.\d+\.\d+\/20$/);
  await kept.stopAndStart();
  expect(kept.address).toBe(address);
  // From the last addresses of the pool.
  await peer.guest.run(
    `ip address add 10.44.15.254/20 dev ${(await peer.guest.interfaceOf(await peer.mac())).name}`,
  );
  results["keptAddress"] = { address, migration: await migrate(kept, peer) };
  expect(await kept.askByDhcp()).toBe(given);
});

test("our daemons, agents, controllers and sidecars are killed, and the VMs stay connected; later a migration succeeds", async () => {
  // The pattern does not match the shell that looks for it.
  const processes = async () =>
    (await rig.onNodes("pgrep -f '/opt/kube-vhostuser/[d]ist/' || true")).map((text) =>
      text.trim().split("\n"),
    );
  let killed: readonly (readonly string[])[] = [];
  const pings = await pinging(peer, moving, async () => {
    killed = await processes();
    await rig.onNodes("pkill -KILL -f '/opt/kube-vhostuser/[d]ist/'");
    await eventually("no killed process runs", async () => {
      const running = await processes();
      return killed.every((pids, node) => pids.every((pid) => running[node]?.includes(pid) !== true));
    });
    // kubelet reports late that they ended: containers that were started again count.
    await eventually("the daemons are back", async () => {
      const path = "{.items[*].status.containerStatuses[?(@.restartCount>0)].ready}";
      const pods = "get pods --selector app.kubernetes.io/name=kube-vhostuser";
      return (await rig.kubectl(`-n kube-vhostuser ${pods} --output jsonpath='${path}'`)) === "true true";
    });
  });
  // A daemon and an agent on each node, and the sidecar of each VM.
  expect(killed.flat().length).toBeGreaterThanOrEqual(7);
  for (const vm of [moving, peer, kept]) expect((await vm.vmi()).status?.phase).toBe("Running");
  results["kills"] = { killed: killed.flat().length, pings, migration: await migrate(moving, peer) };
});

test("an interface that is added to a running VM is refused with a warning, and added when it restarts", async () => {
  const { uid } = (await moving.vmi()).metadata;
  let said = "";
  const pings = await pinging(peer, moving, async () => {
    said = await moving.addInterface("net2", "vhostuser-network");
  });
  expect(said).toMatch(/^Warning: .* restart the VM to get interface net2: /m);
  expect((await moving.vmi()).metadata.uid).toBe(uid);
  expect(await moving.interfaces()).toEqual(["default", "net1"]);
  // KubeVirt hot-plugs the bindings bridge and SR-IOV only; 1.9 does not mark the VM with RestartRequired.
  const conditions = '{.status.conditions[?(@.type=="RestartRequired")].message}';
  const message = await rig.kubectl(`-n tests get vm moving --output jsonpath='${conditions}'`);
  results["hotplug"] = { pings, restartRequired: message === "" ? "KubeVirt does not say so" : message };
  await moving.restart();
  await eventually("KubeVirt reports the interface", async () =>
    (await moving.interfaces()).includes("net2"),
  );
  await peer.guest.waitForPeer(moving.address, 120_000);
});

test("VMs that are deleted leave no port and no directory, and all can be removed", async () => {
  // Of `moving` two.
  expect(await ports()).toHaveLength(4);
  await rig.kubectl("-n tests delete vm --all --timeout=5m");
  await eventually("no VM has a port", async () => (await ports()).length === 0);
  const directories = () => rig.onNodes("find /var/run/vhostuser -mindepth 1 -maxdepth 1 -type d");
  await eventually("no directory is left", async () => (await directories()).join("") === "");
  await rig.kubectl("delete addresspool green-v4 --timeout=5m");
  await rig.restore();
  const steps = quickStartSteps().filter(({ section }) => section.startsWith("6."));
  expect(steps).toHaveLength(1);
  for (const { script, output } of steps) expect(await rig.cluster.sh(script), script).toMatch(output);
});
