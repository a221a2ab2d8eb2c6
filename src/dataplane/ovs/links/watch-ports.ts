import { monitorTables, type RowChange } from "../../../protocols/ovsdb/monitor.ts";
import { stringMapShape } from "../../../protocols/ovsdb/values.ts";
import type { Clock } from "../../../sync/clock.ts";
import { keepWatching } from "../../keep-watching.ts";
import type { OvsContext } from "../database.ts";
import { isOurs } from "../ports/marks.ts";

/** Columns that hold what was asked of a port, and nothing that the switch itself writes. */
const COLUMNS = {
  Bridge: ["name"],
  Port: [
    ...["name", "external_ids", "interfaces", "vlan_mode", "tag", "trunks", "cvlans"],
    ...["protected", "qos", "other_config"],
  ],
  Interface: [
    ...["name", "external_ids", "type", "options", "mtu_request", "other_config"],
    ...["ingress_policing_rate", "ingress_policing_burst"],
  ],
  QoS: ["external_ids", "type", "other_config"],
} as const;

/** Ports that may not be as asked any more, by name; `all` where it could be any. */
export type DisturbedPorts = readonly string[] | "all";

/** What {@link watchPorts} asks and calls. */
export interface PortWatch {
  /** Resolves when our own calls for this port are over; undefined where none is running. Does not reject. */
  readonly whenIdle: (port: string) => Promise<void> | undefined;
  readonly onDisturbed: (ports: DisturbedPorts) => void;
}

/**
 * Reports ports of this node that another client changed or removed, as soon as the database does, until the signal
 * fires; resolves then and never rejects. A database that is back may be another one, and ports may wait for a new
 * bridge: both concern all. A change during a call of ours may be that call's or another client's, so it is reported
 * when the call is over.
 */
export function watchPorts(
  { databaseSocket, node, logger }: Pick<OvsContext, "databaseSocket" | "node" | "logger">,
  { whenIdle, onDisturbed }: PortWatch,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  let wasLost = false;
  const awaited = new Set<string>();
  const isReportedLater = (port: string): boolean => {
    if (awaited.has(port)) return true;
    const idle = whenIdle(port);
    if (idle === undefined) return false;
    awaited.add(port);
    void idle.then(() => {
      awaited.delete(port);
      if (!signal.aborted) onDisturbed([port]);
    });
    return true;
  };
  const onChanges = (changes: readonly RowChange[]) => {
    // Only the reply that starts the watch has none.
    if (changes.length === 0) {
      if (wasLost) onDisturbed("all");
      return;
    }
    const ports = disturbedPorts(changes, node);
    const now = ports === "all" ? ports : ports.filter((port) => !isReportedLater(port));
    if (now.length > 0) onDisturbed(now);
  };
  const monitor = { path: databaseSocket, database: "Open_vSwitch", columns: COLUMNS, isSilentFirst: true };
  const watch = async (onSeen: () => void) => {
    const seen = (changes: readonly RowChange[]) => {
      onSeen();
      onChanges(changes);
    };
    await monitorTables({ ...monitor, onChanges: seen }, signal).finally(() => {
      wasLost = true;
    });
  };
  const warning = "changes of ports by other clients are not seen until the next reconcile pass";
  return keepWatching(watch, { warning, isSilentAway: true, clock, logger, signal });
}

/** Pure: which ports of a node changes concern. What is inserted is known to the client that inserts it. */
export function disturbedPorts(changes: readonly RowChange[], node: string): DisturbedPorts {
  const ports = new Set<string>();
  for (const { table, old, new: row } of changes) {
    if (table === "Bridge" && old === undefined) return "all";
    if (table === "Bridge" || old === undefined) continue;
    // `old` has the columns that changed, or all of a removed row: our mark itself may be what is gone.
    const marks = [row, old].map((side) => stringMapShape.safeParse(side?.["external_ids"]).data);
    const ours = marks.find((ids) => ids !== undefined && isOurs(ids, node));
    if (ours === undefined) continue;
    const name = table === "QoS" ? ours.get("port") : (row?.["name"] ?? old["name"]);
    if (typeof name === "string") ports.add(name);
  }
  return [...ports];
}
