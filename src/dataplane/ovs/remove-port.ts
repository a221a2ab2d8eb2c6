import { describeThrown } from "../../failure/failure.ts";
import { lostRace, requireCommitted } from "../../ovsdb/transaction.ts";
import { isVswitchdRunning, readApplied, requestConfiguration, requestedConfiguration } from "./applied.ts";
import type { OvsContext } from "./context.ts";
import { isOurs } from "./marks.ts";
import { deletePort } from "./port-rows.ts";
import { portTable } from "./rows.ts";

const ATTEMPTS = 10;

/**
 * {@link Dataplane.removePort}. Waits until the switch has closed the socket, so that its directory may go. With the
 * switch down the database alone decides: the port will not come back when it starts.
 */
export async function removePort(context: OvsContext, name: string, signal: AbortSignal): Promise<boolean> {
  const number = await deleteFromDatabase(context, name, (ids) => isOurs(ids, context.node), signal);
  if (number === undefined) return false;
  try {
    if (await isVswitchdRunning(context, signal)) await readApplied(context, number, [], signal);
  } catch (thrown) {
    context.logger.warn(
      { port: name, reason: describeThrown(thrown) },
      "the port is deleted, but the switch has not confirmed it",
    );
  }
  return true;
}

/** Deletes the port of that name if it is still `mine`; gives the configuration number to wait for. */
export async function deleteFromDatabase(
  context: OvsContext,
  name: string,
  mine: (portIds: ReadonlyMap<string, string>) => boolean,
  signal: AbortSignal,
): Promise<number | undefined> {
  for (let attempt = 1; ; attempt += 1) {
    const look = [portTable.select([["name", "==", name]])];
    const [found] = requireCommitted(look, await context.client.transact(look, signal));
    const port = portTable.read(found)[0];
    if (port === undefined || !mine(port.external_ids)) return undefined;
    const operations = [...deletePort(port), ...requestConfiguration];
    const outcome = await context.client.transact(operations, signal);
    if (lostRace(operations, outcome) && attempt < ATTEMPTS) continue;
    return requestedConfiguration(requireCommitted(operations, outcome));
  }
}
