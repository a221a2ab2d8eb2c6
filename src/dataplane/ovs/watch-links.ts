import type { Clock } from "../../clock/clock.ts";
import { describeThrown } from "../../failure/failure.ts";
import { monitorTables } from "../../ovsdb/monitor.ts";
import type { LinkChange } from "../dataplane.ts";
import type { OvsContext } from "./context.ts";
import { LINK_COLUMNS, type LinkStates } from "./link-states.ts";

/** Pace at which a database that is away is tried, in milliseconds. */
const RETRY_MS = 250;

/**
 * {@link Dataplane.watchLinks}: a guest that comes is known a moment after the switch knows.
 * @param states kept up to date
 */
export async function watchLinks(
  { databaseSocket, logger }: Pick<OvsContext, "databaseSocket" | "logger">,
  states: LinkStates,
  onLink: (change: LinkChange) => void,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  let isAway = false;
  const watch = {
    path: databaseSocket,
    database: "Open_vSwitch",
    columns: LINK_COLUMNS,
    onChanges: (changes: Parameters<LinkStates["take"]>[0]) => {
      isAway = false;
      for (const change of states.take(changes)) onLink(change);
    },
  };
  while (!signal.aborted) {
    try {
      await monitorTables(watch, signal);
    } catch (thrown) {
      states.lost();
      if (!isAway && !signal.aborted) {
        logger.warn({ reason: describeThrown(thrown) }, "guests that come or go are not seen for now");
      }
      isAway = true;
    }
    await clock.sleep(RETRY_MS, signal).catch(() => undefined);
  }
}
