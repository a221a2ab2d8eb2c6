import { join } from "node:path";
import { type OvsDpdk, startOvsDpdk } from "../lab/ovs-dpdk.ts";
import { reserveHugepages } from "../machine/hugepages.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { identifyProcess } from "../machine/process-table.ts";

/** Bridges that stand for two nodes' switches. */
export const BRIDGES = { a: "br-a", b: "br-b" } as const;

/** 2 MiB pages for the switch's own memory. */
const SWITCH_PAGES = 256;

/**
 * Starts OVS-DPDK with a bridge for each of two nodes, joined by a patch cable as a network between nodes is.
 * @param guestPages 2 MiB pages that guests and DPDK pods of the run will take beside the switch's own
 */
export async function startSwitch(run: LabRun, guestPages: number): Promise<OvsDpdk> {
  await reserveHugepages(run, 2048, SWITCH_PAGES + guestPages);
  const ovs = await startOvsDpdk({
    directory: join(run.directory, "ovs"),
    bridges: Object.values(BRIDGES),
  });
  const traces = Object.values(ovs.pids()).flatMap((pid) => {
    const identity = identifyProcess(pid);
    return identity === undefined ? [] : [run.journal.note({ kind: "process", identity, finish: false })];
  });
  run.cleanup.defer("stop the switch", async () => {
    await ovs.close();
    for (const trace of traces) run.journal.strike(trace);
  });
  const cable = (bridge: string, name: string, peer: string) => [
    ...["add-port", bridge, name, "--", "set", "Interface", name, "type=patch", `options:peer=${peer}`],
  ];
  await ovs.vsctl(...cable(BRIDGES.a, "to-b", "to-a"), "--", ...cable(BRIDGES.b, "to-a", "to-b"));
  return ovs;
}

/** Names of the vhost-user ports that the switch has. */
export async function vhostPorts(ovs: OvsDpdk): Promise<readonly string[]> {
  const text = await ovs.vsctl(
    ...["--no-wait", "--bare", "--columns=name", "find", "Interface", "type=dpdkvhostuserclient"],
  );
  return text.split("\n").filter((line) => line !== "");
}
