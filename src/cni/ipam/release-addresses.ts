import { forgetAddresses } from "../../attachment/remove-attachment.ts";
import { toFailure } from "../../failure/failure.ts";
import { attachmentFields } from "../../logging/fields.ts";
import { type PortRecord, portRecordName } from "../../records/port-record.ts";
import type { CniContext } from "../cni-context.ts";
import type { Delegate } from "../delegate.ts";
import { type IpamCall, runIpam } from "./run-ipam.ts";

/**
 * Gives an attachment's addresses back to the plugin that gave them, and forgets them, and the record too where the
 * port is gone already. Without addresses it does nothing. To be called in the container's turn.
 * @param call what to call the plugin with where that is not what its ADD was called with
 * @throws Failure of runIpam; the record then tells when it was tried
 */
export async function releaseAddresses(
  record: PortRecord,
  context: CniContext,
  delegate: Delegate | undefined,
  call?: IpamCall,
): Promise<void> {
  const name = portRecordName(record.containerId, record.interfaceName);
  const held = context.node.records.ports.get(name)?.ipam;
  if (held === undefined) return;
  const { type, env } = held;
  try {
    await runIpam(call ?? { type, verb: "DEL", env, stdin: Buffer.from(held.stdin) }, delegate);
  } catch (error) {
    // That an executable was killed says nothing of the plugin: the next request may try at once.
    if (toFailure(error).code !== "ipam-interrupted") await noteFailure(name, context);
    throw error;
  }
  await forgetAddresses(context.node, name);
}

/** The same, where a failure is no reason to stop: it is logged, and a later request goes on with it. */
export async function releaseNowOrLater(
  record: PortRecord,
  context: CniContext,
  delegate: Delegate | undefined,
  call?: IpamCall,
): Promise<void> {
  try {
    await releaseAddresses(record, context, delegate, call);
  } catch (error) {
    context.logger.warn(
      { ...attachmentFields(record), err: toFailure(error) },
      "addresses are given back later",
    );
  }
}

/** How often addresses could not be given back so far. */
export function failedReleases({ ipam }: PortRecord): number {
  return ipam?.failedReleases?.count ?? 0;
}

/** Time for a release that is not the first try or not the request's own business, doubled with each that failed. */
const FIRST_LIMIT_MS = 3_000;
const LAST_LIMIT_MS = 24_000;

/**
 * What runs the plugin with little time, and more with each try that failed: one that hangs holds others up by little
 * or seldom, and one that is only slow gets its time in the end.
 */
export function forAnotherTry(delegate: Delegate, record: PortRecord): Delegate {
  const limitMs = Math.min(LAST_LIMIT_MS, FIRST_LIMIT_MS * 2 ** failedReleases(record));
  return (call) => delegate({ ...call, limitMs });
}

/** The note only spaces out the tries, so a disk that does not take it is no reason to fail. */
async function noteFailure(name: string, { node, clock }: CniContext): Promise<void> {
  const { ports } = node.records;
  const lastAt = clock.now();
  const noted = (record: PortRecord): PortRecord => {
    if (record.ipam === undefined) return record;
    const count = failedReleases(record) + 1;
    return { ...record, ipam: { ...record.ipam, failedReleases: { count, lastAt } } };
  };
  await ports
    .update(name, (record) => record && noted(record))
    .catch(() => ports.updateInMemory(name, noted));
}
