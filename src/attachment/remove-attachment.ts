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
 * Takes an attachment away: first its record says so, then the port goes, then the record. When the switch
 * cannot be reached the record stays as `detaching` and the reconciler goes on with it.
 * @returns undefined when all is gone, else why the port could not be removed now
 */
export async function removeAttachment(
  context: NodeContext,
  record: PortRecord,
  signal: AbortSignal,
): Promise<Error | undefined> {
  const detaching: PortRecord = { ...record, state: "detaching" };
  if (record.state !== "detaching") await context.records.ports.put(detaching);
  try {
    await removePortAnywhere(context, record.portName, record.pool, signal);
  } catch (error) {
    return toFailure(error);
  }
  await context.records.ports.remove(portRecordName(record.containerId, record.interfaceName));
  return undefined;
}
