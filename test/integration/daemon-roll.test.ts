import { readFile, writeFile } from "node:fs/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { ClusterNode } from "../cluster/cluster-node.ts";
import { DpdkPod } from "../cluster/dpdk-pod.ts";
import { exampleNetwork } from "../cluster/network.ts";
import { BRIDGES, type Switches, startSwitches, vhostPorts } from "../cluster/switch.ts";
import { BURST_PACKETS, TESTPMD_HUGEPAGES, type Testpmd } from "../lab/testpmd.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";
import type { SelectedNetwork } from "../stand-in/multus/network.ts";

const MAC = { sender: "02:00:00:00:03:01", receiver: "02:00:00:00:03:02", young: "02:00:00:00:03:03" };

let run: LabRun;
let switches: Switches;
let node: ClusterNode;
let network: SelectedNetwork;
/** The configuration that the node started with. */
let usual: string;
const pods: DpdkPod[] = [];

beforeAll(async () => {
  run = await openLabRun();
  network = await exampleNetwork();
  switches = await startSwitches(run, 2 * TESTPMD_HUGEPAGES);
  node = await ClusterNode.start(run, {
    ...{ name: "a", bridge: BRIDGES.a, databaseSocket: switches.a.databaseSocket },
    reclaim: { intervalSeconds: 0.3, graceSeconds: 1 },
  });
  usual = await readFile(node.configFile, "utf8");
});
afterAll(() => run?.close());
afterEach(async ({ task }) => {
  if (task.result?.state === "fail")
    for (const pod of pods.splice(0)) await pod.remove().catch(() => undefined);
});

/** The pod of the DaemonSet is replaced: SIGTERM, something happens, then a daemon with another configuration starts. */
async function roll(
  config: string,
  meanwhile: () => Promise<unknown> = async () => undefined,
): Promise<void> {
  await node.stopDaemon();
  await writeFile(node.configFile, config);
  await meanwhile();
  await node.startDaemon();
}

/** The usual configuration with the pool at the other switch. */
function elsewhere(name: string): string {
  const config = JSON.parse(usual);
  const dataplane = { type: "ovs-dpdk", database: switches.b.databaseSocket, bridge: BRIDGES.b };
  return JSON.stringify({ ...config, pools: { [name]: { ...config.pools.sockets, dataplane } } });
}

async function attach(name: keyof typeof MAC): Promise<DpdkPod> {
  const pod = new DpdkPod({ run, node, name: `${name}-${pods.length}`, port: { network }, mac: MAC[name] });
  pods.push(pod);
  await pod.attach();
  return pod;
}

/** Ports of the first switch as their guests notice them: another port or connection would differ. */
const ports = () =>
  switches.a.vsctl(
    "--columns=_uuid,name,ofport,link_resets",
    "find",
    "Interface",
    "type=dpdkvhostuserclient",
  );

/** Sends frames until some arrive. */
async function expectTraffic(sender: Testpmd, receiver: Testpmd): Promise<void> {
  const { rx } = await receiver.counts();
  const arrives = async () => {
    await sender.sendBursts(1);
    return (await receiver.counts()).rx >= rx + BURST_PACKETS;
  };
  await waitUntil(arrives, { what: "frames arrive" });
}

async function untilLogged(part: string): Promise<void> {
  const logged = async () => (await readFile(node.daemonLog, "utf8")).includes(part);
  await waitUntil(logged, { what: `the log has ${JSON.stringify(part)}` });
}

describe("a roll of the DaemonSet with another configuration", () => {
  it.each([
    { what: "is at another switch", pool: "sockets" },
    { what: "is no longer configured", pool: "renamed" },
  ])(
    "leaves guests of a pool that $what their ports and traffic, until the last is gone",
    async ({ pool }) => {
      await roll(usual);
      const [one, two] = [await attach("sender"), await attach("receiver")];
      const [sender, receiver] = [await one.start(MAC.receiver), await two.start(MAC.sender)];
      await receiver.forward("rxonly");
      await expectTraffic(sender, receiver);
      const before = await ports();

      await roll(elsewhere(pool), () => expectTraffic(sender, receiver));
      await expectTraffic(sender, receiver);
      expect(await ports()).toBe(before);

      // New pods have the configured switch, and the older ones' ports are still repaired.
      const young = await attach("young");
      expect(await vhostPorts(switches.b)).toHaveLength(1);
      const [removed = ""] = await vhostPorts(switches.a);
      await switches.a.vsctl("del-port", BRIDGES.a, removed);
      await waitUntil(async () => (await vhostPorts(switches.a)).length === 2, {
        what: "the removed port is back",
      });
      await expectTraffic(sender, receiver);

      for (const pod of [young, one, two]) await pod.remove();
      pods.length = 0;
      await untilLogged("last pod in a switch that is not configured is gone");
      expect([...(await vhostPorts(switches.a)), ...(await vhostPorts(switches.b))]).toEqual([]);
    },
  );
});
