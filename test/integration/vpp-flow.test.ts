import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { lstat } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  ANY_INDEX,
  dumpInterfaces,
  setBridge,
  setInterfaceFlags,
} from "../../src/protocols/vpp-api/messages.ts";
import { setUnnumbered } from "../../src/protocols/vpp-api/routing-messages.ts";
import { readRecords } from "../../src/records/records.ts";
import { ClusterNode, SOCKETS } from "../cluster/cluster-node.ts";
import { exampleNetwork } from "../cluster/network.ts";
import { BRIDGES, startSwitch, vhostPorts } from "../cluster/switch.ts";
import { soon } from "../contract/switch-under-test.ts";
import { addNetworkNamespace, type NetworkNamespace } from "../lab/network-namespace.ts";
import type { OvsDpdk } from "../lab/ovs-dpdk.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { IpamPlugin } from "../stand-in/cni/ipam-plugin.ts";
import { cniDeviceInfoFile } from "../stand-in/multus/device-info-files.ts";
import type { SelectedNetwork } from "../stand-in/multus/network.ts";
import { toDelegate } from "../stand-in/multus/network.ts";
import { pluginEnvironment, pluginStdin, type Sandbox } from "../stand-in/multus/plugin-input.ts";
import { runPlugin } from "../stand-in/multus/run-plugin.ts";
import type { VppRig } from "./vpp-rig.ts";
import { startVpp, vppName } from "./vpp-under-test.ts";

/** Resource of the pool of the other switch. */
const OVS_SOCKETS = "vhostuser/ovs";
const FOREIGN = "tap-of-others";

let vpp: VppRig;
let ovs: OvsDpdk;
let node: ClusterNode;
let netns: NetworkNamespace;
let networks: Record<"vpp" | "ovs" | "routed", SelectedNetwork>;
let ipam: IpamPlugin;
let ipamDirectory: string;
let pods = 0;
const living = new Set<FlowPod>();

beforeAll(async () => {
  vpp = await startVpp();
  ovs = await startSwitch(vpp.run, 0);
  ipamDirectory = join(vpp.run.directory, "ipam-bin");
  ipam = await IpamPlugin.install({ binDir: ipamDirectory, directory: join(vpp.run.directory, "ipam") });
  node = await ClusterNode.start(vpp.run, {
    cniPath: ipamDirectory,
    name: "a",
    bridge: "blue",
    databaseSocket: ovs.databaseSocket,
    capacity: 110,
    pool: { dataplane: { type: "vpp", apiSocket: vpp.apiSocket, bridge: "blue" } },
    otherPools: {
      ovs: {
        resource: OVS_SOCKETS,
        capacity: 2,
        dataplane: { type: "ovs-dpdk", database: ovs.databaseSocket, bridge: BRIDGES.a },
      },
    },
    // Long enough that what comes back at once does not come with a pass that would have come anyway.
    reclaim: { intervalSeconds: 600, graceSeconds: 3 },
  });
  await node.kubelet.waitForAllocatable(OVS_SOCKETS, 2, 60_000);
  netns = await addNetworkNamespace(vpp.run, "pod");
  const network = { ...(await exampleNetwork()), interface: "net1" };
  const { bridge: _, ...keys } = JSON.parse(String(network.config));
  const routed = { ...keys, mode: "l3", vrf: 7, createVrf: true, ipam: { type: ipam.type } };
  networks = {
    vpp: network,
    ovs: { ...network, resourceName: OVS_SOCKETS },
    routed: { ...network, config: JSON.stringify(routed) },
  };
});
afterAll(() => vpp?.close());
beforeEach(async () => {
  await vpp.reset();
  // A test that failed has left them.
  for (const pod of living) await end(pod);
});

interface FlowPod {
  readonly name: string;
  readonly device: string;
  readonly sandbox: Sandbox;
  /** What ADD answered. */
  readonly result: unknown;
}

/** kubelet admits a pod, and Multus attaches its network. */
async function start(network: SelectedNetwork): Promise<FlowPod> {
  const name = `pod-${pods++}`;
  const resource = network.resourceName ?? SOCKETS;
  const container = { name: "c", resources: { [resource]: 1 } };
  const admission = await node.kubelet.admitPod({ namespace: "tests", name, containers: [container] });
  if (admission.phase === "Failed") throw new Error(`pod ${name}: ${admission.message}`);
  const device = admission.containers[0]?.deviceIds[resource]?.[0] ?? "";
  const pod = { namespace: "tests", name, uid: admission.uid };
  const sandbox = { pod, containerId: randomBytes(32).toString("hex"), netns: netns.path };
  const { results } = await node.multus.attach({ ...sandbox, networks: [network] });
  const started = { name, device, sandbox, result: results[0] };
  living.add(started);
  return started;
}

async function end(pod: FlowPod): Promise<void> {
  living.delete(pod);
  await node.multus.detach(pod.sandbox);
  node.kubelet.removePod({ namespace: "tests", name: pod.name });
}

/** CHECK as a runtime calls it, with the result that ADD gave. */
async function check(
  { device, sandbox, result: prevResult }: FlowPod,
  network: SelectedNetwork,
): Promise<void> {
  const delegate = toDelegate(network, 1, device);
  const [plugin] = delegate.plugins;
  if (plugin === undefined) throw new Error("the network has no plugin");
  const deviceInfoFile = cniDeviceInfoFile(
    join(node.deviceInfoDirectory, "cni"),
    delegate,
    sandbox.containerId,
  );
  const env = pluginEnvironment({ verb: "ADD", sandbox, delegate, cniPath: ipamDirectory });
  await runPlugin({
    executable: join(import.meta.dirname, "../../dist/cni/kube-vhostuser"),
    env: { PATH: "/usr/bin:/bin", ...env, CNI_COMMAND: "CHECK", KUBE_VHOSTUSER_CNI_SOCKET: node.cniSocket },
    stdin: pluginStdin({ delegate, plugin, deviceInfoFile, prevResult }),
  });
}

/** The last of a port's parts may be a moment behind the others. */
const untilCheckPasses = (pod: FlowPod, network: SelectedNetwork) =>
  waitUntil(
    () =>
      check(pod, network).then(
        () => true,
        () => false,
      ),
    { what: "CHECK is content" },
  );

/** Ports of ours, and whether each is up and in the bridge. */
const ourPorts = () =>
  vpp.withVpp(async (_, { ports, members, bridges }) =>
    ports
      .filter(({ mark }) => mark !== undefined)
      .map(({ name, index, interface: row }) => ({
        name,
        isUp: (row.flags & 1) === 1,
        bridge: bridges.find(({ bd_id }) => bd_id === members.get(index)?.bridge)?.bd_tag,
      }))
      .sort((one, other) => (one.name < other.name ? -1 : 1)),
  );

/** All that VPP reports about an interface that is not ours, its place in the bridge included. */
const foreignInterface = () =>
  vpp.withVpp(async (connection, { ports, members }) => {
    const index = ports.find(({ name }) => name === FOREIGN)?.index ?? -1;
    const ask = { sw_if_index: ANY_INDEX, name_filter_valid: false, name_filter: "" };
    const rows = await connection.dump(dumpInterfaces, ask, soon());
    return { row: rows.find(({ sw_if_index }) => sw_if_index === index), member: members.get(index) };
  });

/** Another program's interface, in our bridge and up. */
async function makeForeign(): Promise<void> {
  await vpp.makeForeignPort(FOREIGN, join(vpp.socketDirectory, "foreign.sock"));
  await vpp.withVpp(async (connection, { ports, bridges }) => {
    const sw_if_index = ports.find(({ name }) => name === FOREIGN)?.index ?? -1;
    const bd_id = bridges.find(({ bd_tag }) => bd_tag === "blue")?.bd_id ?? -1;
    const join = { rx_sw_if_index: sw_if_index, bd_id, port_type: 0, shg: 0, enable: true };
    await connection.request(setBridge, join, soon());
    await connection.request(setInterfaceFlags, { sw_if_index, flags: 1 }, soon());
  });
}

/** A killed VPP leaves the file of its socket, without a listener. */
async function isListening(path: string): Promise<boolean> {
  const socket = connect(path);
  try {
    await once(socket, "connect", { signal: soon() });
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

const untilPorts = (ports: unknown, what: string) =>
  waitUntil(async () => JSON.stringify(await ourPorts()) === JSON.stringify(ports), {
    what,
    everyMs: 10,
  });

describe(`the daemon, the CNI executable and ${vppName}`, () => {
  it("attach, check and detach a pod, and leave the interface of another client alone", async () => {
    await makeForeign();
    const before = await foreignInterface();
    expect(before.member).toBeDefined();
    const pod = await start(networks.vpp);
    expect(await ourPorts()).toEqual([{ name: expect.stringMatching(/^vhu/), isUp: true, bridge: "blue" }]);
    await check(pod, networks.vpp);
    await vpp.withVpp(async (connection, { ports }) => {
      const sw_if_index = ports.find(({ mark }) => mark !== undefined)?.index ?? -1;
      await connection.request(setInterfaceFlags, { sw_if_index, flags: 0 }, soon());
    });
    await expect(check(pod, networks.vpp)).rejects.toThrow(/is not up/);
    await end(pod);
    expect(await ourPorts()).toEqual([]);
    expect(await foreignInterface()).toEqual(before);
  });

  it("have fifty ports again at once when VPP has restarted", async () => {
    const started = await Promise.all(Array.from({ length: 50 }, () => start(networks.vpp)));
    const ports = await ourPorts();
    expect(ports).toHaveLength(50);
    await vpp.killSwitch();
    await vpp.startSwitch();
    const begin = performance.now();
    await untilPorts(ports, "all ports are back");
    console.log(
      `50 ports are back in ${vppName} ${Math.round(performance.now() - begin)} ms after its bridges`,
    );
    await Promise.all(started.map(end));
    expect(await ourPorts()).toEqual([]);
  });

  it("attach routed pods, repair what of them is missing, and make them again with their table", async (context) => {
    if (!(await vpp.offers("routed ports"))) return context.skip();
    const pods = [await start(networks.routed), await start(networks.routed)];
    for (const pod of pods) await check(pod, networks.routed);
    const before = await vpp.belongings();
    expect(before).toEqual([
      expect.stringMatching(/^\d+ uses \d+$/),
      expect.stringMatching(/^\d+ uses \d+$/),
      "loop0",
      expect.stringMatching(/^neighbour of /),
      expect.stringMatching(/^neighbour of /),
    ]);
    const [first] = pods;
    if (first === undefined) return;
    await vpp.withVpp(async (connection, { unnumbered }) => {
      for (const [index, of] of unnumbered) {
        const use = { sw_if_index: of, unnumbered_sw_if_index: index, is_add: false };
        await connection.request(setUnnumbered, use, soon());
      }
    });
    await expect(check(first, networks.routed)).rejects.toThrow(/does not answer for gateway 10\.9\.0\.254/);
    await vpp.killSwitch();
    await vpp.startSwitch();
    await waitUntil(async () => (await vpp.belongings()).length === before.length, {
      what: "all of the routed ports is back",
      detail: () => JSON.stringify(before),
    });
    await untilCheckPasses(first, networks.routed);
    for (const pod of pods) await end(pod);
    expect([await ourPorts(), await vpp.belongings(), await ipam.held()]).toEqual([[], [], []]);
  });

  it("refuse a routed pod on Open vSwitch, and give its address back", async () => {
    const onOvs = { ...networks.routed, resourceName: OVS_SOCKETS };
    await expect(start(onOvs)).rejects.toThrow(/setting-unsupported: mode: /);
    expect([await vhostPorts(ovs), await ipam.held()]).toEqual([[], []]);
  });

  it("restore living pods' ports alone, where a pod ended while VPP was down", async () => {
    const stays = await start(networks.vpp);
    const [port] = await ourPorts();
    const goes = await start(networks.vpp);
    await vpp.killSwitch();
    await end(goes);
    await vpp.startSwitch();
    await makeForeign();
    const before = await foreignInterface();
    await untilPorts([port], "the living pod's port is back");
    const portRecords = async () => (await readRecords(node.recordsDirectory)).ports;
    await waitUntil(async () => (await portRecords()).length === 1, {
      what: "the record of the pod that ended is gone",
    });
    expect(await ourPorts()).toEqual([port]);
    expect(await foreignInterface()).toEqual(before);
    await end(stays);
  });

  it("restore the ports when both VPP and the daemon were killed", async () => {
    const pod = await start(networks.vpp);
    const ports = await ourPorts();
    await node.killDaemon();
    await vpp.killSwitch();
    await vpp.startSwitch();
    expect(await ourPorts()).toEqual([]);
    await node.startDaemon();
    await untilPorts(ports, "the port is back");
    await end(pod);
    expect(await ourPorts()).toEqual([]);
  });

  it("let VPP make the socket for a program that connects, and make it again after a restart", async () => {
    const config = { ...JSON.parse(String(networks.vpp.config)), socketServer: "switch" };
    const served = { ...networks.vpp, config: JSON.stringify(config) };
    const pod = await start(served);
    const [port] = await ourPorts();
    const path = await vpp.withVpp(async (_, { ports }) => ports[0]?.vhost.sock_filename ?? "");
    const untilUsable = () =>
      waitUntil(
        async () => {
          const status = await lstat(path).catch(() => undefined);
          const isOurs = status?.gid === 107 && (status.mode & 0o060) === 0o060;
          return isOurs && (await isListening(path));
        },
        { what: "the pool's group may connect to the socket" },
      );
    await untilUsable();
    await check(pod, served);
    await vpp.killSwitch();
    await vpp.startSwitch();
    await untilPorts([port], "the port is back");
    await untilUsable();
    await end(pod);
    expect(await lstat(path).catch(() => undefined)).toBeUndefined();
  });

  it("serve Open vSwitch on the same node, which a network's resource chooses", async () => {
    const [inVpp, inOvs] = [await start(networks.vpp), await start(networks.ovs)];
    expect(await ourPorts()).toHaveLength(1);
    expect(await vhostPorts(ovs)).toHaveLength(1);
    await check(inOvs, networks.ovs);
    await vpp.killSwitch();
    // The other switch is served meanwhile.
    await check(inOvs, networks.ovs);
    await end(inOvs);
    expect(await vhostPorts(ovs)).toEqual([]);
    await vpp.startSwitch();
    await waitUntil(async () => (await ourPorts()).length === 1, {
      what: "the port is back",
    });
    await end(inVpp);
    expect(await ourPorts()).toEqual([]);
  });
});
