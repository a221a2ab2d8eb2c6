import type { PortSettings } from "../../../config/port-settings.ts";
import { guard, type Operation, type Row } from "../../../protocols/ovsdb/transaction.ts";
import { mapValue, newRowReference, setValue, uuidReference } from "../../../protocols/ovsdb/values.ts";
import type { PortRequest } from "../../port.ts";
import { burstBytes } from "../../rates.ts";
import { OWNER } from "../ports/marks.ts";
import type { PortRow, QosRow } from "../tables.ts";

/** The limit towards a guest as a QoS row has it, in bytes (a second). */
type GuestLimit = Pick<QosRow, "type" | "other_config">;

/** The limit that the settings ask for. A two-rate one needs no Queue rows: queue 0 uses the QoS row's values. */
export function limitOf({ toGuest }: PortSettings): GuestLimit | undefined {
  if (toGuest === undefined) return undefined;
  const { excess } = toGuest;
  // Never 0, which the switch would refuse.
  const bytes = (bits: number) => String(Math.max(1, Math.floor(bits / 8)));
  const other_config = new Map([
    ["cir", bytes(toGuest.rate)],
    ["cbs", String(burstBytes(toGuest))],
  ]);
  if (excess === undefined) return { type: "egress-policer", other_config };
  other_config.set("eir", bytes(excess.rate)).set("ebs", String(burstBytes(excess)));
  return { type: "trtcm-policer", other_config };
}

/** `external_ids` of our QoS rows. They are root rows, and found by this mark when their port is gone. */
export function limitMarks(node: string, port?: string): Readonly<Record<string, string>> {
  return { owner: OWNER, node, ...(port === undefined ? {} : { port }) };
}

/** The limit in force, for people and for comparison; `rows` are ours for this port. */
export function describeLimitOf(port: PortRow, rows: readonly QosRow[]): string {
  const row = rows.find(({ _uuid }) => _uuid === port.qos);
  return port.qos !== undefined && row === undefined ? "a QoS row of another program" : describeLimit(row);
}

/** A limit for people and for comparison. */
export function describeLimit(limit: GuestLimit | undefined): string {
  if (limit === undefined) return "none";
  return [limit.type, ...[...limit.other_config].map((pair) => pair.join("=")).sort()].join(" ");
}

/**
 * Brings the limit of a port to the request: operations on QoS rows, and the columns of the Port row that refer to
 * them. Makes the port's QoS row, or changes one of ours; a row of another program is replaced only by a limit.
 * @param current the port's QoS row now, by uuid
 * @param rows our QoS rows for this port
 */
export function writeLimit(
  { name, owner, settings }: PortRequest,
  current: string | undefined,
  rows: readonly QosRow[],
): { readonly operations: readonly Operation[]; readonly columns: Row } {
  const limit = limitOf(settings);
  const inUse = rows.find(({ _uuid }) => _uuid === current);
  if (limit === undefined)
    return { operations: [], columns: inUse === undefined ? {} : { qos: setValue([]) } };
  const other_config = mapValue(Object.fromEntries(limit.other_config));
  const row: Row = { type: limit.type, other_config, queues: mapValue({}) };
  const ours = inUse ?? rows[0];
  if (ours !== undefined) {
    const qos = uuidReference(ours._uuid);
    return {
      operations: [{ op: "update", table: "QoS", where: [["_uuid", "==", qos]], row }],
      columns: { qos },
    };
  }
  const marked = { ...row, external_ids: mapValue(limitMarks(owner.node, name)) };
  return {
    operations: [{ op: "insert", table: "QoS", "uuid-name": "new_qos", row: marked }],
    columns: { qos: newRowReference("new_qos") },
  };
}

/** Deletes one of our QoS rows unless a port refers to it. */
export function deleteUnusedLimit(row: QosRow): Operation[] {
  const reference = uuidReference(row._uuid);
  return [
    guard("Port", [["qos", "includes", reference]], ["name"], []),
    { op: "delete", table: "QoS", where: [["_uuid", "==", reference]] },
  ];
}

/** Removes the limit that a port has; its row is to be deleted next. */
export function releaseLimit(port: PortRow): Operation {
  const where = [["_uuid", "==", uuidReference(port._uuid)]] as const;
  return { op: "update", table: "Port", where, row: { qos: setValue([]) } };
}
