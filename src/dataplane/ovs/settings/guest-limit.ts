import type { PortSettings } from "../../../config/port-settings.ts";
import { guard, type Operation, type Row } from "../../../protocols/ovsdb/transaction.ts";
import {
  mapValue,
  newRowReference,
  type OvsdbValue,
  setValue,
  uuidReference,
} from "../../../protocols/ovsdb/values.ts";
import type { PortRequest } from "../../port.ts";
import { burstBytes } from "../../rates.ts";
import { OWNER } from "../ports/marks.ts";
import type { PortRow, QosRow } from "../tables.ts";

/** The limit towards a guest as a QoS row has it: a type and `other_config`, in bytes (a second). */
export interface GuestLimit {
  readonly type: string;
  readonly parameters: Readonly<Record<string, string>>;
}

/** The limit that the settings ask for. A two-rate one needs no Queue rows: queue 0 uses the QoS row's values. */
export function limitOf({ toGuest }: PortSettings): GuestLimit | undefined {
  if (toGuest === undefined) return undefined;
  const { excess } = toGuest;
  // Never 0, which the switch would refuse.
  const bytes = (bits: number) => String(Math.max(1, Math.floor(bits / 8)));
  const committed = { cir: bytes(toGuest.rate), cbs: String(burstBytes(toGuest)) };
  if (excess === undefined) return { type: "egress-policer", parameters: committed };
  const parameters = { ...committed, eir: bytes(excess.rate), ebs: String(burstBytes(excess)) };
  return { type: "trtcm-policer", parameters };
}

/** `external_ids` of our QoS rows. They are root rows, and found by this mark when their port is gone. */
export function limitMarks(node: string, port?: string): Readonly<Record<string, string>> {
  return { owner: OWNER, node, ...(port === undefined ? {} : { port }) };
}

/** The limit in force, for people and for comparison; `rows` are ours for this port. */
export function describeLimitOf(port: PortRow, rows: readonly QosRow[]): string {
  if (port.qos === undefined) return "none";
  const row = rows.find(({ _uuid }) => _uuid === port.qos);
  if (row === undefined) return "a QoS row of another program";
  return describeLimit({ type: row.type, parameters: Object.fromEntries(row.other_config) });
}

/** A limit for people and for comparison. */
export function describeLimit(limit: GuestLimit | undefined): string {
  if (limit === undefined) return "none";
  const parameters = Object.entries(limit.parameters).sort(([one], [other]) => (one < other ? -1 : 1));
  return [limit.type, ...parameters.map((pair) => pair.join("="))].join(" ");
}

/** Makes the port's QoS row, or changes one of ours to what is asked, and gives what Port.qos is to hold. */
export function writeLimit(
  limit: GuestLimit,
  { name, owner }: Pick<PortRequest, "name" | "owner">,
  current: string | undefined,
  rows: readonly QosRow[],
): { readonly operation: Operation; readonly qos: OvsdbValue } {
  const row: Row = { type: limit.type, other_config: mapValue(limit.parameters), queues: mapValue({}) };
  const ours = rows.find(({ _uuid }) => _uuid === current) ?? rows[0];
  if (ours !== undefined) {
    const qos = uuidReference(ours._uuid);
    return { operation: { op: "update", table: "QoS", where: [["_uuid", "==", qos]], row }, qos };
  }
  const external_ids = mapValue(limitMarks(owner.node, name));
  return {
    operation: { op: "insert", table: "QoS", "uuid-name": "new_qos", row: { ...row, external_ids } },
    qos: newRowReference("new_qos"),
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
