import { describeThrown } from "../../failure/failure.ts";
import { lostRace, type Operation, requireCommitted } from "../../protocols/ovsdb/transaction.ts";
import { mapValue } from "../../protocols/ovsdb/values.ts";
import { isVswitchdRunning, readApplied, requestConfiguration, requestedConfiguration } from "./applied.ts";
import type { OvsContext } from "./context.ts";
import { isOurs, settingsBefore } from "./marks.ts";
import { deletePort } from "./port-rows.ts";
import { deleteUnusedQos, qosMarks, releaseQos } from "./qos.ts";
import { removeStrays } from "./remove-strays.ts";
import { bridgeTable, portTable, qosTable } from "./rows.ts";
import { dropSecurity } from "./settle-security.ts";

const ATTEMPTS = 10;

/**
 * {@link Dataplane.removePort}. Waits until the switch has closed the socket, so that its directory may go. With the
 * switch down the database alone decides: the port will not come back when it starts.
 */
export async function removePort(context: OvsContext, name: string, signal: AbortSignal): Promise<boolean> {
  const deleted = await deleteFromDatabase(context, name, (ids) => isOurs(ids, context.node), signal);
  try {
    if (deleted !== undefined && (await isVswitchdRunning(context, signal))) {
      await readApplied(context, deleted.number, [], signal);
    }
  } catch (thrown) {
    context.logger.warn(
      { port: name, reason: describeThrown(thrown) },
      "the port is deleted, but the switch has not confirmed it",
    );
  }
  // Not before the port is gone: whoever is still connected would not be held any more.
  await dropSecurity(context, name, deleted?.securedOn, signal);
  return deleted !== undefined;
}

/** What {@link deleteFromDatabase} took away. */
export interface DeletedPort {
  /** Configuration number to wait for. */
  readonly number: number;
  /** Bridge on which the port had security. */
  readonly securedOn: string | undefined;
}

/**
 * Deletes the port of that name if it is still `mine`, with the QoS row that we made for it. A QoS row that a port of somebody else uses too stays, and is a stray once it does not.
 */
export async function deleteFromDatabase(
  context: OvsContext,
  name: string,
  mine: (portIds: ReadonlyMap<string, string>) => boolean,
  signal: AbortSignal,
): Promise<DeletedPort | undefined> {
  const look = [
    portTable.select([["name", "==", name]]),
    qosTable.select([["external_ids", "includes", mapValue(qosMarks(context.node, name))]]),
    bridgeTable.select([]),
  ];
  let shared = false;
  for (let attempt = 1; ; attempt += 1) {
    const found = requireCommitted(look, await context.client.transact(look, signal));
    const port = portTable.read(found[0])[0];
    const rows = qosTable.read(found[1]);
    if (port === undefined || !mine(port.external_ids)) {
      // Somebody else removed the port.
      if (rows.length > 0) await removeStrays(context, name, signal);
      return undefined;
    }
    const ofPort = deletePort(port);
    const ofLimit: readonly Operation[] =
      shared || rows.length === 0 ? [] : [releaseQos(port), ...rows.flatMap(deleteUnusedQos)];
    const operations = [...ofPort, ...ofLimit, ...requestConfiguration];
    const outcome = await context.client.transact(operations, signal);
    if (!outcome.committed && lostRace(operations, outcome) && attempt < ATTEMPTS) {
      shared = outcome.failedAt >= ofPort.length && outcome.failedAt < ofPort.length + ofLimit.length;
      continue;
    }
    const bridge = bridgeTable.read(found[2]).find(({ ports }) => ports.includes(port._uuid));
    return {
      number: requestedConfiguration(requireCommitted(operations, outcome)),
      securedOn: settingsBefore(port.external_ids).has("security") ? bridge?.name : undefined,
    };
  }
}
