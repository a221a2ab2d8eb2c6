import { describeThrown } from "../../../failure/failure.ts";
import { lostRace, type Operation, requireCommitted } from "../../../protocols/ovsdb/transaction.ts";
import { mapValue, setValue } from "../../../protocols/ovsdb/values.ts";
import { commitChange, type OvsContext, readApplied, readRows } from "../database.ts";
import { dropSecurity, hasFlows } from "../security/secured-ports.ts";
import { deleteUnusedLimit, limitMarks, releaseLimit } from "../settings/guest-limit.ts";
import { bridgeOfPort, portTable, qosTable } from "../tables.ts";
import { isOurs, settingsBefore } from "./marks.ts";
import { deletePort } from "./write-port.ts";

/**
 * {@link Dataplane.removePort}. Waits until the switch has closed the socket, so that its directory can be removed.
 * With the switch down the database alone decides, after some two seconds at most: the port will not come back.
 */
export async function removePort(context: OvsContext, name: string, signal: AbortSignal): Promise<boolean> {
  const deleted = await deleteFromDatabase(context, name, (ids) => isOurs(ids, context.node), signal);
  try {
    if (deleted !== undefined) await readApplied(context, deleted.number, [], signal);
  } catch (thrown) {
    // With the switch down that is as expected, and its pool's monitor logs it.
    context.logger[context.isSwitchDown ? "debug" : "warn"](
      { port: name, reason: describeThrown(thrown) },
      "the port is deleted, but the switch has not confirmed it",
    );
  }
  // Not before the port is gone: a guest that is still connected would be unrestricted.
  await dropSecurity(context, name, deleted?.securedOn, signal);
  return deleted !== undefined;
}

/** What {@link deleteFromDatabase} deleted. */
export interface DeletedPort {
  /** Configuration number to wait for. */
  readonly number: number;
  /** Bridge on which the port had security. */
  readonly securedOn: string | undefined;
}

/**
 * Deletes the port of that name if it is still `isMine`, with the QoS row that we made for it. A QoS row that a port
 * of another program uses too stays, and is a stray once it does not.
 */
export async function deleteFromDatabase(
  context: OvsContext,
  name: string,
  isMine: (portIds: ReadonlyMap<string, string>) => boolean,
  signal: AbortSignal,
): Promise<DeletedPort | undefined> {
  const queries = [
    portTable.select(["name", "==", name]),
    qosTable.select(["external_ids", "includes", mapValue(limitMarks(context.node, name))]),
  ] as const;
  let isLimitShared = false;
  for (let attempt = 1; ; attempt += 1) {
    const [[port], limits] = await readRows(context.client, queries, signal);
    if (port === undefined || !isMine(port.external_ids)) {
      if (limits.length > 0) await removeStrayLimits(context, name, signal);
      return undefined;
    }
    const isSecured = hasFlows(settingsBefore(port));
    const [[bridge]] = isSecured ? await readRows(context.client, [bridgeOfPort(port)], signal) : [[]];
    const ofPort = deletePort(port);
    const ofLimit: readonly Operation[] =
      isLimitShared || limits.length === 0 ? [] : [releaseLimit(port), ...limits.flatMap(deleteUnusedLimit)];
    const committed = await commitChange(context.client, [...ofPort, ...ofLimit], name, attempt, signal);
    if (committed.number === undefined) {
      isLimitShared =
        committed.voidedAt >= ofPort.length && committed.voidedAt < ofPort.length + ofLimit.length;
      continue;
    }
    return { number: committed.number, securedOn: bridge?.name };
  }
}

/**
 * Deletes QoS rows with this node's mark that no port refers to, because another program removed the port, or because
 * we stopped half-way.
 * @param port only those that were made for the port of this name
 * @returns how many there were
 */
export async function removeStrayLimits(
  context: OvsContext,
  port: string | undefined,
  signal: AbortSignal,
): Promise<number> {
  const queries = [
    qosTable.select(["external_ids", "includes", mapValue(limitMarks(context.node, port))]),
    portTable.select(["qos", "!=", setValue([])]),
  ] as const;
  const [limits, ports] = await readRows(context.client, queries, signal);
  const used = new Set(ports.map(({ qos }) => qos));
  let removed = 0;
  for (const row of limits) {
    if (used.has(row._uuid)) continue;
    const operations = deleteUnusedLimit(row);
    const outcome = await context.client.transact(operations, signal);
    // A port refers to it by now.
    if (lostRace(operations, outcome)) continue;
    removed += requireCommitted(operations, outcome)[1]?.count ?? 0;
  }
  return removed;
}
