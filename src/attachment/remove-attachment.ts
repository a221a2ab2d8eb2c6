import { removeDeviceInfo } from "../allocation/device-info.ts";
import { describeThrown, toFailure } from "../failure/failure.ts";
import { leasesOf } from "../ipam/release-addresses.ts";
import { type PortIdentity, type PortRecord, portKey } from "../records/port-record.ts";
import { updatePort } from "../records/records.ts";
import type { NodeContext } from "./node-context.ts";
import { withdrawSocket } from "./publish-socket.ts";

/**
 * Records that the port of a sandbox is to go, so that the reconciler removes it whatever happens. Does nothing without a
 * record, or where another sandbox has the port now.
 */
export function markDetaching(
  { records }: NodeContext,
  sandbox: PortIdentity & Pick<PortRecord, "containerId">,
): Promise<void> {
  return updatePort(records.ports, sandbox, (record) => {
    if (record.state === "releasing" || record.containerId !== sandbox.containerId) return record;
    const { lease: _, ...rest } = record;
    return { ...rest, state: "detaching", releases: [...leasesOf(record)] };
  });
}

/**
 * Removes an attachment: its record says so first, then the port goes, then the record. When the switch cannot be
 * reached, or the record not be removed, it stays `detaching` and the reconciler continues. Addresses are not released
 * here: while there are any the record stays, as `releasing`. To be called with the port's lock.
 * @returns undefined when the port is gone, else why not
 */
export async function removeAttachment(
  context: NodeContext,
  record: PortRecord,
  signal: AbortSignal,
): Promise<Error | undefined> {
  if (record.state === "releasing") return undefined;
  // Not waited for: it matters only when the removal fails or is killed half-way.
  const marked = record.state === "detaching" ? undefined : markDetaching(context, record);
  try {
    await removePort(context, record, signal).finally(() => marked);
    if (record.settings.socketServer === "switch") {
      await withdrawSocket({ root: context.config.root, ...record });
    }
    // Multus removes it too, unless its DEL was lost.
    if (record.deviceInfoFile !== undefined) removeDeviceInfo(record.deviceInfoFile);
    await forgetPort(context, record);
  } catch (error) {
    return toFailure(error);
  }
  return undefined;
}

/** Removes a port from its switch; where neither configuration nor allocation names that one, from any that has it. */
async function removePort({ pools }: NodeContext, record: PortRecord, signal: AbortSignal): Promise<void> {
  const pool = pools.ofPort(record);
  const dataplanes = pool === undefined ? pools.dataplanes() : [pool.dataplane];
  const results = await Promise.allSettled(dataplanes.map((one) => one.removePort(record.portName, signal)));
  const errors = results.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
  if (errors.length === 1) throw errors[0];
  if (errors.length > 1) throw new AggregateError(errors, errors.map(describeThrown).join("; "));
}

async function forgetPort({ records: { ports } }: NodeContext, identity: PortIdentity): Promise<void> {
  await ports.remove(portKey(identity), (record) => leasesOf(record).length === 0);
  await updatePort(ports, identity, (record) => ({ ...record, state: "releasing" }));
}
