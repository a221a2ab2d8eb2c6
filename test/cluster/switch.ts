import { join } from "node:path";
import { joinBridges, type OvsDpdk, startOvsDpdk } from "../lab/ovs-dpdk.ts";
import { reserveHugepages } from "../machine/hugepages.ts";
import type { LabRun } from "../machine/lab-run.ts";

/** Bridges that stand for two nodes' switches. */
export const BRIDGES = { a: "br-a", b: "br-b" } as const;

/**
 * Starts OVS-DPDK with a bridge for each of two nodes, joined by a patch cable as a network between nodes is.
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

/** Names of the vhost-user ports that the switch has. */
export async function vhostPorts(ovs: OvsDpdk): Promise<readonly string[]> {
  const text = await ovs.vsctl(
    ...["--no-wait", "--bare", "--columns=name", "find", "Interface", "type=dpdkvhostuserclient"],
  );
  return text.split("\n").filter((line) => line !== "");
}
