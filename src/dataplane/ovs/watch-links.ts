import { monitorTables } from "../../protocols/ovsdb/monitor.ts";
import type { Clock } from "../../sync/clock.ts";
import type { LinkChange } from "../dataplane.ts";
import { keepWatchingLinks } from "../keep-watching-links.ts";
import type { OvsContext } from "./context.ts";
import { LINK_COLUMNS, type LinkStates } from "./link-states.ts";

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
  const watch = (onSeen: () => void) => ({
    path: databaseSocket,
    database: "Open_vSwitch",
    columns: LINK_COLUMNS,
    onChanges: (changes: Parameters<LinkStates["take"]>[0]) => {
      onSeen();
      for (const change of states.take(changes)) onLink(change);
    },
  });
  const live = async (onSeen: () => void) => {
    try {
      await monitorTables(watch(onSeen), signal);
    } catch (thrown) {
      states.lost();
      throw thrown;
    }
  };
  await keepWatchingLinks(live, { clock, logger, signal });
}
