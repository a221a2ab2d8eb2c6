import { removeDeviceInfo } from "../allocation/device-info.ts";
import { describeThrown, toFailure } from "../failure/failure.ts";
import { isGoing, type PortRecord, portRecordName } from "../records/port-record.ts";
import type { NodeContext } from "./node-context.ts";
import { withdrawSocket } from "./publish-socket.ts";

/**
 * Removes a port wherever it is. Without a record, or with one whose pool is gone, every switch is asked, for
 * the name is a function of container and interface.
 * @returns whether there was one
 */
export async function removePortAnywhere(
  context: NodeContext,
  portName: string,
  record: PortRecord | undefined,
  signal: AbortSignal,
): Promise<boolean> {
  const pool = record && context.pools.ofPort(record);
  const dataplanes = pool === undefined ? context.pools.dataplanes() : [pool.dataplane];
  let removed = false;
  const errors: unknown[] = [];
  for (const dataplane of dataplanes) {
    try {
      removed = (await dataplane.removePort(portName, signal)) || removed;
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0)
    throw errors.length === 1 ? errors[0] : new AggregateError(errors, errors.map(describeThrown).join("; "));
  return removed;
}

/**
 * Notes that a port is to go, so that the reconciler removes it whatever happens; without a record it does nothing.
 */
export function markDetaching(context: NodeContext, name: string): Promise<void> {
  return note(context, name, (record) =>
    record.state === "releasing" ? record : { ...record, state: "detaching" },
  );
}

/**
 * Takes an attachment away: first its record says so, then the port goes, then the record. When the switch
 * cannot be reached, or the record not be removed, it stays as `detaching` and the reconciler goes on with it.
 * Addresses of an IPAM plugin are not given back here: while there are any the record stays, as `releasing`.
 * @returns undefined when the port is gone, else why not
 */
export async function removeAttachment(
  context: NodeContext,
  record: PortRecord,
  signal: AbortSignal,
): Promise<Error | undefined> {
  const name = portRecordName(record.containerId, record.interfaceName);
  if (record.state === "releasing") return undefined;
  // The note does not hold the removal up: it is for the one that fails, or is killed half-way.
  const noted = record.state === "detaching" ? undefined : markDetaching(context, name);
  try {
    await removePortAnywhere(context, record.portName, record, signal).finally(() => noted);
    if (record.settings.socketServer === "switch" && !isTakenOver(context, record)) {
      withdrawSocket({ root: context.config.root, ...record });
    }
    // Multus removes it too, unless its DEL was lost.
    if (record.deviceInfoFile !== undefined) removeDeviceInfo(record.deviceInfoFile);
    await forgetPort(context, name);
  } catch (error) {
    return toFailure(error);
  }
  return undefined;
}

/**
 * Whether a newer sandbox's attachment has the place of the socket. Its ADD takes an older one's port away beside that
 * one's DEL, which may hear of the switch later; the record is there before the socket.
 */
function isTakenOver({ records }: NodeContext, { containerId, switchSocketPath }: PortRecord): boolean {
  return records.ports
    .list()
    .some(
      (other) =>
        other.switchSocketPath === switchSocketPath && other.containerId !== containerId && !isGoing(other),
    );
}

/** Notes that an attachment's addresses were given back; its record goes when the port has gone already. */
export async function forgetAddresses(context: NodeContext, name: string): Promise<void> {
  const { ports } = context.records;
  if (ports.get(name)?.state === "releasing") return ports.remove(name);
  await note(context, name, ({ ipam: _, ...record }) => record);
  await ports.remove(name, isOver);
}

async function forgetPort(context: NodeContext, name: string): Promise<void> {
  const { ports } = context.records;
  if (ports.get(name)?.ipam === undefined) return ports.remove(name);
  await note(context, name, (record) => ({ ...record, state: "releasing" }));
  await ports.remove(name, isOver);
}

/**
 * Whether nothing is left to be done. A newer sandbox's ADD takes an older one's port away in its own turn, beside the
 * older one's DEL, so addresses may go between the look at the record and its change.
 */
function isOver({ state, ipam }: PortRecord): boolean {
  return state === "releasing" && ipam === undefined;
}

/**
 * Changes a record where there is one. With a disk that takes nothing the change is in memory only: what removes
 * things must go on, for it may never be repeated.
 */
async function note(
  context: NodeContext,
  name: string,
  change: (record: PortRecord) => PortRecord,
): Promise<void> {
  const { ports } = context.records;
  try {
    await ports.update(name, (record) => record && change(record));
  } catch {
    ports.updateInMemory(name, change);
  }
}
