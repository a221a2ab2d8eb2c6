import { describeThrown, Failure } from "../../failure/failure.ts";
import { monitorTables, type RowChange } from "../../protocols/ovsdb/monitor.ts";
import { stringMapShape } from "../../protocols/ovsdb/values.ts";
import type { Clock } from "../../sync/clock.ts";
import type { OvsContext } from "./context.ts";
import { isOurs } from "./marks.ts";

/** Pace at which a database that is away is tried, in milliseconds. */
const RETRY_MS = 250;
/** The longest pause before one is tried again that is there and refuses: twice as long each time, up to this. */
const LONGEST_RETRY_MS = 60_000;

/** Columns that say what was asked of a port; what the switch itself writes is in none of them. */
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
export type Disturbed = readonly string[] | "all";

/** Whom to tell, and what not. */
export interface PortWatch {
  /** Resolves when the calls of ours for this port are over; undefined where there is none. Does not reject. */
  readonly whenIdle: (port: string) => Promise<void> | undefined;
  readonly onDisturbed: (ports: Disturbed) => void;
}

/**
 * Tells of ports of this node that somebody else changed or removed, as soon as the database tells, until the signal
 * fires; resolves then and never rejects. A database that is back may be another one, and a bridge that is new may be
 * one that its ports wait for: both concern all. What changes while a call of ours is at the port may be that call's
 * doing or somebody else's, so it is told when the call is over.
 */
export async function watchPorts(
  { databaseSocket, node, logger }: Pick<OvsContext, "databaseSocket" | "node" | "logger">,
  { whenIdle, onDisturbed }: PortWatch,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  let wasLost = false;
  let retryMs = RETRY_MS;
  const awaited = new Set<string>();
  const isToldLater = (port: string): boolean => {
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
    retryMs = RETRY_MS;
    // Only the answer that begins the watch has none.
    if (changes.length === 0) {
      if (wasLost) onDisturbed("all");
      return;
    }
    const ports = disturbedPorts(changes, node);
    const now = ports === "all" ? ports : ports.filter((port) => !isToldLater(port));
    if (now.length > 0) onDisturbed(now);
  };
  const watch = { path: databaseSocket, database: "Open_vSwitch", columns: COLUMNS, isSilentFirst: true };
  while (!signal.aborted) {
    const refusal = await monitorTables({ ...watch, onChanges }, signal).then(() => undefined, whyRefused);
    if (refusal !== undefined && !signal.aborted) {
      if (retryMs === RETRY_MS) {
        logger.warn({ reason: refusal }, "ports that somebody else changes are seen at the next pass only");
      }
      retryMs = Math.min(2 * retryMs, LONGEST_RETRY_MS);
    }
    wasLost = true;
    await clock.sleep(retryMs, signal).catch(() => undefined);
  }
}

/** That the database is away is told by the watch over guests; that it does not have a column is known here only. */
function whyRefused(thrown: unknown): string | undefined {
  const isAway = thrown instanceof Failure && thrown.code === "dataplane-unavailable";
  return isAway ? undefined : describeThrown(thrown);
}

/** Pure: which ports of a node changes concern. What is inserted was asked for by whoever inserts it. */
export function disturbedPorts(changes: readonly RowChange[], node: string): Disturbed {
  const ports = new Set<string>();
  for (const { table, old, new: row } of changes) {
    if (table === "Bridge" && old === undefined) return "all";
    if (table === "Bridge" || old === undefined) continue;
    // A change holds in `old` what it changed, a removal all: our mark itself may be what is gone.
    const marks = [row, old].map((side) => stringMapShape.safeParse(side?.["external_ids"]).data);
    const ours = marks.find((ids) => ids !== undefined && isOurs(ids, node));
    if (ours === undefined) continue;
    const name = table === "QoS" ? ours.get("port") : (row?.["name"] ?? old["name"]);
    if (typeof name === "string") ports.add(name);
  }
  return [...ports];
}
