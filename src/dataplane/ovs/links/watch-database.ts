import { monitorTables, type RowChange } from "../../../protocols/ovsdb/monitor.ts";
import { stringMapShape } from "../../../protocols/ovsdb/values.ts";
import type { Clock } from "../../../sync/clock.ts";
import type { LinkChange } from "../../dataplane.ts";
import { keepWatching } from "../../keep-watching.ts";
import type { OvsContext } from "../database.ts";
import { isOurs } from "../ports/marks.ts";
import { linkTable } from "../tables.ts";
import type { PortLinks } from "./port-links.ts";

/** Columns that hold what was requested for a port, and nothing that the switch itself writes. */
const ASKED = {
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
const ASKED_COLUMNS: ReadonlySet<string> = new Set(Object.values(ASKED).flat());

/** Ports that may not be as asked any more, by name; `all` where it could be any. */
export type DisturbedPorts = readonly string[] | "all";

/** What {@link watchDatabase} asks and calls. */
export interface DatabaseWatch {
  /** Kept up to date. */
  readonly links: PortLinks;
  readonly onLink: (change: LinkChange) => void;
  readonly onDisturbed: (ports: DisturbedPorts) => void;
  /** Resolves when our own calls for this port are over; undefined where none is running. Does not reject. */
  readonly whenIdle: (port: string) => Promise<void> | undefined;
  readonly clock: Clock;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/**
 * Follows the links of this node's ports, and reports its ports that another client changed or removed, as soon as the
 * database does; resolves when the signal fires and never rejects. A database that is back may be another one, and
 * ports may wait for a new bridge: both concern all. A change during a call of ours may be that call's or another
 * client's, so it is reported when the call is over.
 */
export function watchDatabase(
  { databaseSocket, node, logger }: Pick<OvsContext, "databaseSocket" | "node" | "logger">,
  { links, onLink, onDisturbed, whenIdle, clock, signal }: DatabaseWatch,
): Promise<void> {
  const awaited = new Set<string>();
  const isReportedLater = (port: string): boolean => {
    const idle = awaited.has(port) ? undefined : whenIdle(port);
    if (idle === undefined) return awaited.has(port);
    awaited.add(port);
    void idle.then(() => {
      awaited.delete(port);
      if (!signal.aborted) onDisturbed([port]);
    });
    return true;
  };
  const columns = { ...ASKED, Interface: [...new Set([...ASKED.Interface, ...linkTable.columns])] };
  let wasLost = false;
  const watch = async (onSeen: () => void) => {
    let isFirst = true;
    const onChanges = (changes: readonly RowChange[]) => {
      onSeen();
      for (const change of links.apply(changes)) onLink(change);
      const afterLoss = wasLost ? "all" : [];
      const ports = isFirst ? afterLoss : disturbedPorts(changes, node);
      isFirst = false;
      const now = ports === "all" ? ports : ports.filter((port) => !isReportedLater(port));
      if (now.length > 0) onDisturbed(now);
    };
    try {
      await monitorTables({ path: databaseSocket, database: "Open_vSwitch", columns, onChanges }, signal);
    } finally {
      wasLost = true;
      links.disconnected();
    }
  };
  const warning = "guests that come or go, and changes of ports by other clients, are not seen for now";
  return keepWatching(watch, { warning, clock, logger, signal });
}

/** Pure: which ports of a node changes concern. What is inserted is known to the client that inserts it. */
export function disturbedPorts(changes: readonly RowChange[], node: string): DisturbedPorts {
  const ports = new Set<string>();
  for (const { table, old, new: row } of changes) {
    if (table === "Bridge" && old === undefined) return "all";
    if (table === "Bridge" || old === undefined) continue;
    if (!Object.keys(old).some((column) => ASKED_COLUMNS.has(column))) continue;
    // `old` has the columns that changed, or all of a removed row: our mark itself may be what is gone.
    const marks = [row, old].map((side) => stringMapShape.safeParse(side?.["external_ids"]).data);
    const ours = marks.find((ids) => ids !== undefined && isOurs(ids, node));
    if (ours === undefined) continue;
    const name = table === "QoS" ? ours.get("port") : (row?.["name"] ?? old["name"]);
    if (typeof name === "string") ports.add(name);
  }
  return [...ports];
}
