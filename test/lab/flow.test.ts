import { readdir, readFile } from "node:fs/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startController } from "../cluster/bundled-ipam.ts";
import { addClaimNetwork, ClaimedVm } from "../cluster/claimed-vm.ts";
import { ClusterNode } from "../cluster/cluster-node.ts";
import { exampleVmi, smallVmi, withClaims } from "../cluster/example-vm.ts";
import { exampleNetwork } from "../cluster/network.ts";
import { BRIDGES, type Switches, startSwitches, vhostPorts } from "../cluster/switch.ts";
import { endVm, startTarget, startVm } from "../cluster/vm-life.ts";
import { VmPod, type VmPodOptions } from "../cluster/vm-pod.ts";
import { answerConversations, conversationGoesOn, openConversation } from "../guest/conversation.ts";
import { buildGuestImage, type GuestImage } from "../guest/image.ts";
import { findGuestKernel } from "../machine/guest-kernel.ts";
import { reserveHugepages } from "../machine/hugepages.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { FakeApiServer } from "../stand-in/api-server/fake-api-server.ts";
import type { SelectedNetwork } from "../stand-in/multus/network.ts";
import { canSendFrom, knownAddresses } from "./known-addresses.ts";

let run: LabRun;
let switches: Switches;
let image: GuestImage;
let network: SelectedNetwork;
let claimNetwork: SelectedNetwork;
let nodes: { a: ClusterNode; b: ClusterNode };
let api: FakeApiServer;
let peer: VmPod;

const MAC = { vm: "02:00:00:00:02:01", peer: "02:00:00:00:02:02" };
const PEER_ADDRESS = "10.2.0.2";
/** No VM's. */
const FOREIGN_ADDRESS = "10.2.0.99";

beforeAll(async () => {
  run = await openLabRun();
  const kernel = await findGuestKernel();
  if (kernel === undefined) throw new Error("no guest kernel; npm test installs it");
  image = await buildGuestImage(kernel);
  network = await exampleNetwork();
  switches = await startSwitches(run, 0);
  api = await FakeApiServer.start();
  run.cleanup.defer("stop the API server", () => api.close());
  api.namespaces.add("tests");
  for (const name of ["a", "b"]) api.store.create("nodes", { metadata: { name } });
  claimNetwork = addClaimNetwork(api, network, "10.2.0");
  await startController(run, api, "ipam-controller", ["--claims", "--manage-claims"]);
  const startNode = (name: "a" | "b") =>
    ClusterNode.start(run, {
      ...{ name, bridge: BRIDGES[name], databaseSocket: switches[name].databaseSocket },
      claims: { ports: 1, api },
      ipam: api,
      // Every test ends when what it left is old enough to be reclaimed.
      reclaim: { intervalSeconds: 0.3, graceSeconds: 1 },
    });
  const [a, b] = await Promise.all([startNode("a"), startNode("b")]);
  nodes = { a, b };
  peer = new VmPod({
    run,
    node: nodes.b,
    name: "peer",
    vmi: smallVmi({ name: "peer", mac: MAC.peer }),
    network,
    image,
  });
  await startVm(peer);
  await peer.guest.setAddress(MAC.peer, `${PEER_ADDRESS}/24`);
  // It learns addresses from announcements, too.
  await peer.guest.run("echo 1 > /proc/sys/net/ipv4/conf/all/arp_accept");
});
afterAll(() => run?.close());

/** The VMs of the present test; the peer lives through all of them. */
const vms: VmPod[] = [];
const newVm = (options: Pick<VmPodOptions, "node" | "name" | "vmi"> & Partial<VmPodOptions>) => {
  const vm = new VmPod({ run, network, image, ...options });
  vms.push(vm);
  return vm;
};
// So that one failure is reported once, and not by every later test.
afterEach(async ({ task }) => {
  for (const vm of vms.splice(0)) {
    if (task.result?.state === "fail") await endVm(vm).catch(() => undefined);
  }
});

async function onlyThePeerIsLeft(): Promise<void> {
  let seen = "";
  await waitUntil(
    async () => {
      const [a, b] = [await nodes.a.leftovers(), await nodes.b.leftovers()];
      const ports = [...(await vhostPorts(switches.a)), ...(await vhostPorts(switches.b))];
      seen = JSON.stringify({ a, b, ports });
      return a.directories + a.records === 0 && b.directories === 1 && b.records === 2 && ports.length === 1;
    },
    {
      what: "only the peer's port, directory and records are left",
      everyMs: 100,
      detail: () => seen,
    },
  );
}

/** Whether its node's daemon has announced the guest behind a VM's port. */
async function isAnnounced(vm: VmPod): Promise<boolean> {
  const lines = (await readFile(vm.node.daemonLog, "utf8")).split("\n");
  return lines.some((line) => line.includes("announced a guest") && line.includes(vm.portName));
}

/** Starts a VM on node a, migrates it to node b under pings, and gives the source, the target and what was seen. */
async function migrate(name: string, address: string, options: Partial<VmPodOptions> = {}) {
  const vmi = smallVmi({ name, mac: MAC.vm });
  const source = newVm({ node: nodes.a, name: `${name}-src`, vmi, ...options });
  const target = newVm({ node: nodes.b, name: `${name}-dst`, vmi, ...options });
  await startVm(source);
  await source.guest.setAddress(MAC.vm, `${address}/24`);
  await peer.guest.waitForPeer(address);
  await startTarget(target);
  expect(await isAnnounced(target), "the guest is not there yet").toBe(false);
  const pinging = await peer.guest.startPing(address, 10);
  const { downtimeMs } = await source.libvirt.migrate(source.domainName, target.libvirt);
  await peer.guest.waitForPeer(address);
  const pings = await pinging.stop();
  // The guest's frames may arrive before its announcement is logged: a switch floods what it does not know.
  await waitUntil(() => isAnnounced(target), { what: "the guest is announced" });
  return { source, target, downtimeMs, pings };
}

/** What each part says that knows a claimed VM's addresses. */
const knownAddressesOf = (vm: ClaimedVm, pod: VmPod) => {
  const side = pod.node === nodes.a ? "a" : "b";
  return knownAddresses(vm, pod, switches[side], BRIDGES[side]);
};

describe("a VM with a vhost-user interface", () => {
  it("keeps its claim's address, its MAC and its TCP connections, stopped, started and migrated twice", async () => {
    const vm = new ClaimedVm({ api, name: "claimed", network: claimNetwork, newPod: newVm });
    await answerConversations(peer.guest);
    let first: object | undefined;
    for (const [from, to] of [
      [nodes.a, nodes.b],
      [nodes.b, nodes.a],
    ] as const) {
      await peer.guest.run("ip neigh flush all");
      const source = await vm.start(from, async (pod) => {
        // The guest has no address yet: the daemon's announcement tells the claim's.
        const isKnown = async () => (await peer.guest.run(`ip neigh show ${vm.address}`)).includes(pod.mac);
        await waitUntil(isKnown, { what: "the peer knows the address by the announcement", everyMs: 200 });
      });
      const { address, ips } = vm;
      const known = await knownAddressesOf(vm, source);
      first ??= known;
      expect(known).toEqual(first);
      expect(known).toMatchObject({ networkStatus: [address], portSecurity: [address], guest: ips[0] });
      expect(await canSendFrom(source.guest, source.mac, FOREIGN_ADDRESS, PEER_ADDRESS)).toBe(false);
      // Whose network has no port security.
      await waitUntil(() => canSendFrom(peer.guest, MAC.peer, FOREIGN_ADDRESS, address), {
        what: "a guest that may send from any address is answered",
      });

      await openConversation(source.guest, PEER_ADDRESS);
      const pinging = await peer.guest.startPing(address, 10);
      const target = await vm.migrate(to);
      await peer.guest.waitForPeer(address);
      const pings = await pinging.stop();
      console.log(`claim: outage ${pings.longestGapMs} ms, ${pings.lost} of ${pings.sent} pings lost`);
      await conversationGoesOn(target.guest);
      await waitUntil(() => isAnnounced(target), { what: "the guest is announced" });
      expect(await knownAddressesOf(vm, target)).toEqual(first);
      expect(await canSendFrom(target.guest, target.mac, FOREIGN_ADDRESS, PEER_ADDRESS)).toBe(false);
      // The target's daemon answers at once, and the guest keeps what else it got by DHCP.
      expect(await target.guest.askByDhcp(target.mac)).toBe(`${ips[0]} by 10.2.0.1`);
      const { name, mtu } = await target.guest.interfaceOf(target.mac);
      expect(mtu).toBe(1400);
      const routes = await target.guest.run(`ip route show dev ${name}`);
      expect(routes).toMatch(/^10\.222\.0\.0\/16 via 10\.2\.0\.1/m);
      expect(routes).not.toContain("default");
      const xml = await target.libvirt.dumpXml(target.domainName);
      expect(xml).toContain("path='/var/run/vhostuser/sockets/");
      expect(xml).toContain(`<mac address='${target.mac}'/>`);
      expect(target.podName).not.toBe(source.podName);
      await vm.stop();
      expect(vm.ips).toEqual(ips);
      await onlyThePeerIsLeft();
    }
    vm.delete();
    await waitUntil(() => vm.ips.length === 0, { what: "the claim goes with its VM" });
  });

  it("migrates live over the symlink, where a foreign plugin's path holds the allocation's id", async () => {
    const { source, target, downtimeMs, pings } = await migrate("foreign", "10.2.0.12", {
      foreignPaths: true,
    });
    console.log(
      `symlink: downtime ${downtimeMs} ms, outage ${pings.longestGapMs} ms, ${pings.lost} of ${pings.sent} pings lost`,
    );
    const xml = await target.libvirt.dumpXml(target.domainName);
    expect(xml).toMatch(
      /path='\/var\/run\/kubevirt-hooks\/hook-sidecar-0\/vhostuser\/pod[0-9a-f]{11}\/vhost\.sock'/,
    );
    expect(await target.libvirt.state(target.domainName)).toBe("running");
    expect(pings.received).toBeGreaterThan(0);
    await endVm(source);
    await endVm(target);
    await onlyThePeerIsLeft();
  });

  it("migrates live with a claim of a template, without Multus: each pod has a claim and a port of its own", async () => {
    const vmi = withClaims(smallVmi({ name: "claim", mac: MAC.vm }));
    const { source, target, pings } = await migrate("claim", "10.2.0.15", { vmi, api });
    const xml = await target.libvirt.dumpXml(target.domainName);
    expect(xml).toContain("path='/var/run/vhostuser/claims/net1/socket/vhost.sock'");
    expect(source.allocationDirectory).not.toBe(target.allocationDirectory);
    expect(pings.received).toBeGreaterThan(0);
    expect(await target.libvirt.state(target.domainName)).toBe("running");
    await endVm(source);
    await endVm(target);
    await onlyThePeerIsLeft();
    for (const { cdiDirectory } of [nodes.a, nodes.b]) expect(await readdir(cdiDirectory)).toEqual([]);
  });

  it("starts though the daemon is killed before every step", async () => {
    const vmi = smallVmi({ name: "killed", mac: MAC.vm });
    const vm = newVm({ node: nodes.a, name: "killed", vmi });
    const steps = [
      () => vm.allocate(),
      () => vm.attach(),
      () => vm.launch(),
      () => vm.define(),
      () => vm.boot(),
      () => vm.guest.setAddress(MAC.vm, "10.2.0.13/24"),
    ];
    for (const step of steps) {
      await nodes.a.killDaemon();
      await nodes.a.startDaemon();
      await step();
    }
    const pings = await peer.guest.ping("10.2.0.13", 20);
    expect(pings.received).toBeGreaterThan(0);
    const before = await switches.a.vsctl("get", "Interface", vm.portName, "ofport");
    await nodes.a.killDaemon();
    const without = await peer.guest.ping("10.2.0.13", 20);
    expect(without.received, "traffic does not need the daemon").toBeGreaterThan(0);
    await nodes.a.startDaemon();
    expect(
      await switches.a.vsctl("get", "Interface", vm.portName, "ofport"),
      "the port is the same one",
    ).toBe(before);
    await endVm(vm);
    await onlyThePeerIsLeft();
  });

  it("works as the example that users start from, unmodified", async () => {
    const vmi = await exampleVmi();
    expect(vmi.spec.domain.memory).toEqual({ guest: "1Gi", hugepages: { pageSize: "2Mi" } });
    await reserveHugepages(run, 2048, 512);
    const mac = "02:00:00:00:00:01";
    const vm = newVm({ node: nodes.a, name: "example", vmi });
    const { deviceIds } = await vm.allocate();
    // KubeVirt asks for one by the network's annotation.
    expect(Object.values(deviceIds).flat()).toHaveLength(1);
    await vm.attach();
    await vm.launch();
    const { xml, calls } = await vm.define();
    expect(calls).toHaveLength(3);
    expect(xml.match(/<interface type="vhostuser"/g)).toHaveLength(1);
    await vm.boot();
    await vm.guest.setAddress(mac, "10.2.0.14/24");
    await peer.guest.waitForPeer("10.2.0.14");
    expect((await peer.guest.ping("10.2.0.14", 50)).received).toBeGreaterThan(0);
    expect((await vm.guest.interfaceOf(mac)).queues).toBe(4);
    // A ring each way for each of the four queues.
    await switches.a.vsctl("wait-until", "Interface", vm.portName, 'status:num_of_vrings="8"');
    await endVm(vm);
    await onlyThePeerIsLeft();
  });
});
