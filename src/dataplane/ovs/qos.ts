import type { PortSettings } from "../../config/port-settings.ts";
import { guard, type Operation, type Row } from "../../protocols/ovsdb/transaction.ts";
import {
  mapValue,
  newRowReference,
  type OvsdbValue,
  setValue,
  uuidReference,
} from "../../protocols/ovsdb/values.ts";
import { burstBytes } from "../rates.ts";
import { OWNER } from "./marks.ts";
import { rateBytes } from "./rates.ts";
import type { PortRow, QosRow } from "./rows.ts";

/** The limit towards the guest in Open vSwitch's words: a type and `other_config`, in bytes (a second). */
export interface Policer {
  readonly type: "egress-policer" | "trtcm-policer";
  readonly parameters: Readonly<Record<string, string>>;
}

/** The policer that the settings ask for. A two-rate one needs no Queue rows: queue 0 takes the QoS row's values. */
export function policerOf({ toGuest }: PortSettings): Policer | undefined {
  if (toGuest === undefined) return undefined;
  const committed = { cir: String(rateBytes(toGuest)), cbs: String(burstBytes(toGuest)) };
  const { excess } = toGuest;
  if (excess === undefined) return { type: "egress-policer", parameters: committed };
  const parameters = { ...committed, eir: String(rateBytes(excess)), ebs: String(burstBytes(excess)) };
  return { type: "trtcm-policer", parameters };
}

/** `external_ids` of our QoS rows. They are root rows, and by this mark they are found when their port is gone. */
export function qosMarks(node: string, port?: string): Readonly<Record<string, string>> {
  return { owner: OWNER, node, ...(port === undefined ? {} : { port }) };
}

/** The limit that is in force, for people and for comparison; `rows` are ours for this port. */
export function describeQos(port: PortRow, rows: readonly QosRow[]): string {
  if (port.qos === undefined) return "none";
  const row = rows.find(({ _uuid }) => _uuid === port.qos);
  return row === undefined
    ? "a QoS row of somebody else"
    : describePolicer({ type: row.type, parameters: Object.fromEntries(row.other_config) });
}

/** A policer for people and for comparison. */
export function describePolicer(policer: { readonly type: string; readonly parameters: object } | undefined) {
  if (policer === undefined) return "none";
  const parameters = Object.entries(policer.parameters).sort(([one], [other]) => (one < other ? -1 : 1));
  return [policer.type, ...parameters.map((pair) => pair.join("="))].join(" ");
}

/** Makes the port's QoS row, or brings one of ours to what is asked, and gives what Port.qos is to hold. */
export function writePolicer(
  policer: Policer,
  port: { readonly name: string; readonly node: string; readonly qos: string | undefined },
  rows: readonly QosRow[],
): { readonly operations: Operation[]; readonly qos: OvsdbValue } {
  const row: Row = { type: policer.type, other_config: mapValue(policer.parameters), queues: mapValue({}) };
  const ours = rows.find(({ _uuid }) => _uuid === port.qos) ?? rows[0];
  if (ours !== undefined) {
    const reference = uuidReference(ours._uuid);
    return {
      operations: [{ op: "update", table: "QoS", where: [["_uuid", "==", reference]], row }],
      qos: reference,
    };
  }
  const external_ids = mapValue(qosMarks(port.node, port.name));
  return {
    operations: [{ op: "insert", table: "QoS", "uuid-name": "new_qos", row: { ...row, external_ids } }],
    qos: newRowReference("new_qos"),
  };
}

/** Deletes one of our QoS rows unless a port refers to it. */
export function deleteUnusedQos(row: QosRow): Operation[] {
  const reference = uuidReference(row._uuid);
  return [
    guard("Port", [["qos", "includes", reference]], ["name"], []),
    { op: "delete", table: "QoS", where: [["_uuid", "==", reference]] },
  ];
}

/** Takes whatever limit a port has off it; the row is to be deleted next. */
export function releaseQos(port: PortRow): Operation {
  return {
    op: "update",
    table: "Port",
    where: [["_uuid", "==", uuidReference(port._uuid)]],
    row: { qos: setValue([]) },
  };
}
