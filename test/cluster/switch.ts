import { join } from "node:path";
import { addNetworkNamespace } from "../lab/network-namespace.ts";
import { joinBridges, type OvsDpdk, startOvsDpdk } from "../lab/ovs-dpdk.ts";
import { linkSwitches, type SwitchEnd } from "../lab/switch-link.ts";
import { reserveHugepages } from "../machine/hugepages.ts";
import type { LabRun } from "../machine/lab-run.ts";

/** Bridges of two nodes. */
export const BRIDGES = { a: "br-a", b: "br-b" } as const;

/** The switches of two nodes. */
export type Switches = Readonly<Record<keyof typeof BRIDGES, OvsDpdk>>;

/**
 * Starts one OVS-DPDK with a bridge for each of two nodes, joined by a patch cable: for tests that need no more.
 * @param guestPages 2 MiB pages that guests and DPDK pods of the run will take beside the switch's own
 */
export async function startSwitch(run: LabRun, guestPages: number): Promise<OvsDpdk> {
  await reserveHugepages(run, 2048, guestPages);
  const ovs = await startOvsDpdk(run, {
    directory: join(run.directory, "ovs"),
    bridges: Object.values(BRIDGES),
  });
  await joinBridges(ovs, BRIDGES.a, BRIDGES.b);
  return ovs;
}

/**
 * Starts an OVS-DPDK for each of two nodes, with a real link between them, as in production: each has MAC tables,
 * a database and OpenFlow numbers of its own.
 * @param guestPages as for {@link startSwitch}
 */
export async function startSwitches(run: LabRun, guestPages: number): Promise<Switches> {
  await reserveHugepages(run, 2048, guestPages);
  const start = async (name: keyof Switches): Promise<SwitchEnd> => {
    const bridge = BRIDGES[name];
    const network = await addNetworkNamespace(run, `switch-${name}`);
    const directory = join(run.directory, `ovs-${name}`);
    return { ovs: await startOvsDpdk(run, { directory, bridges: [bridge], network }), bridge, network };
  };
  const [a, b] = await Promise.all([start("a"), start("b")]);
  await linkSwitches(a, b);
  return { a: a.ovs, b: b.ovs };
}

/** Names of the vhost-user ports that the switch has. */
export async function vhostPorts(ovs: OvsDpdk): Promise<readonly string[]> {
  const text = await ovs.vsctl(
    ...["--no-wait", "--bare", "--columns=name", "find", "Interface", "type=dpdkvhostuserclient"],
  );
  return text.split("\n").filter((line) => line !== "");
}
