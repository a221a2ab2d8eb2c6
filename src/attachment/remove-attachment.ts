import { toFailure } from "../failure/failure.ts";
import { type PortRecord, portRecordName } from "../records/port-record.ts";
import { distinctDataplanes, type NodeContext } from "./node-context.ts";

/**
 * Removes a port wherever it is. Without a record, or with one whose pool is gone, every switch is asked, for
 * the name is a function of container and interface.
 * @returns whether there was one
 */
export async function removePortAnywhere(
  context: NodeContext,
  portName: string,
  pool: string | undefined,
  signal: AbortSignal,
): Promise<boolean> {
  const named = pool === undefined ? undefined : context.pools.get(pool);
  const dataplanes = named === undefined ? distinctDataplanes(context) : [named.dataplane];
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
    throw errors.length === 1 ? errors[0] : new AggregateError(errors, "several switches");
  return removed;
}

/**
 * Notes that a port is to go, so that the reconciler removes it whatever happens; without a record it does nothing.
 * With a disk that takes nothing the note is in memory only: DEL must go on, for it may never be repeated.
 */
export async function markDetaching(context: NodeContext, name: string): Promise<void> {
  const { ports } = context.records;
  try {
    await ports.update(name, (record) => record && { ...record, state: "detaching" });
  } catch {
    ports.updateInMemory(name, (record) => ({ ...record, state: "detaching" }));
  }
}

/**
 * Takes an attachment away: first its record says so, then the port goes, then the record. When the switch
 * cannot be reached, or the record not be removed, it stays as `detaching` and the reconciler goes on with it.
 * @returns undefined when all is gone, else why not
 */
export async function removeAttachment(
  context: NodeContext,
  record: PortRecord,
  signal: AbortSignal,
): Promise<Error | undefined> {
  const name = portRecordName(record.containerId, record.interfaceName);
  if (record.state !== "detaching") await markDetaching(context, name);
  try {
    await removePortAnywhere(context, record.portName, record.pool, signal);
  } catch (error) {
    return toFailure(error);
  }
  try {
    await context.records.ports.remove(name);
  } catch (error) {
    return toFailure(error);
  }
  return undefined;
}
