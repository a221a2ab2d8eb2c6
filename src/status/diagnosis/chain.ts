import type { InterfaceStatus, TracedInterface } from "../shape.ts";
import { checkDirectory } from "./check-directory.ts";
import { checkConnected, checkLink, checkQueues, checkSocket } from "./check-guest.ts";
import { checkPort } from "./check-port.ts";
import { checkAllocation, checkDeviceInfo, checkPod, checkRecord } from "./check-records.ts";
import { LINKS, type Link, type LinkFinding, type LinkName } from "./link.ts";

const CHECKS: Readonly<Record<LinkName, (one: TracedInterface) => LinkFinding>> = {
  pod: checkPod,
  allocation: checkAllocation,
  directory: checkDirectory,
  "device-info": checkDeviceInfo,
  record: checkRecord,
  port: checkPort,
  socket: checkSocket,
  connected: checkConnected,
  link: checkLink,
  queues: checkQueues,
};

/** Pure: the links of an interface's chain up to the first that is not as it should be; the links that depend on it are left out. */
export function traceChain(one: TracedInterface): readonly Link[] {
  const chain: Link[] = [];
  for (const name of LINKS) {
    const link = { name, ...CHECKS[name](one) };
    chain.push(link);
    if (isBroken(link)) break;
  }
  return chain;
}

/** Whether a chain ends at this link. */
export function isBroken({ verdict }: Pick<Link, "verdict">): boolean {
  return verdict === "broken" || verdict === "waiting";
}

/** The first broken link of an interface as far as the status of the whole node shows it; undefined where no link is broken. */
export function brokenLink(one: InterfaceStatus): Link | undefined {
  return traceChain({ ...one, holder: "held" }).find(isBroken);
}
