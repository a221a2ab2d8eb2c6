import type { PortSettings } from "../../../config/port-settings.ts";
import type { Operation, Row } from "../../../protocols/ovsdb/transaction.ts";
import { mapValue, type OvsdbValue, setValue } from "../../../protocols/ovsdb/values.ts";
import { burstKilobits, rateKilobits } from "../../rates.ts";
import { EXTERNAL_ID, settingNames, settingsBefore } from "../ports/marks.ts";
import type { InterfaceRow, PortRow, QosRow } from "../tables.ts";
import { describeLimit, describeLimitOf, limitOf } from "./guest-limit.ts";

/** What a cell holds; undefined is an empty optional column, or a key that its map lacks. */
type CellValue = string | number | boolean | readonly number[] | undefined;

type PortColumn = "vlan_mode" | "tag" | "trunks" | "cvlans" | "protected" | "other_config";
type InterfaceColumn =
  | "ingress_policing_rate"
  | "ingress_policing_burst"
  | "options"
  | "other_config"
  | "external_ids";
type CellPlace =
  | { readonly table: "Port"; readonly column: PortColumn }
  | { readonly table: "Interface"; readonly column: InterfaceColumn };

/** A column of Port or Interface, or one key of a map column, that a setting decides. */
export type Cell = CellPlace & {
  /** The setting's name in the port's mark: see {@link settingNames}. */
  readonly setting: string;
  /** Its name for people. */
  readonly what: string;
  /** What it is to hold; the switch's default where the setting is absent. */
  readonly asked: CellValue;
  /** Of a map column, and of no other. */
  readonly key: string | undefined;
};

/** Pure: cells of the settings that are given, and of those in `before`, which were given once and are reset. */
export function settingCells(settings: PortSettings, before: ReadonlySet<string>): readonly Cell[] {
  const { vlan, fromGuest, transmitRetries, receiveQueueCores, isolated = false } = settings;
  const names = new Set([...settingNames(settings), ...before]);
  const externalIds = new Map(Object.entries(settings.externalIds ?? {}));
  const port = (setting: string, what: string, column: PortColumn, asked: CellValue, key?: string): Cell => {
    return { table: "Port", setting, what, column, asked, key };
  };
  const row = (
    setting: string,
    what: string,
    column: InterfaceColumn,
    asked: CellValue,
    key?: string,
  ): Cell => {
    return { table: "Interface", setting, what, column, asked, key };
  };
  const rate = fromGuest === undefined ? 0 : rateKilobits(fromGuest);
  const burst = fromGuest === undefined ? 0 : burstKilobits(fromGuest);
  const cores = receiveQueueCores?.map((pair) => pair.join(":")).join(",");
  const cells: readonly Cell[] = [
    port("vlan", "VLAN mode", "vlan_mode", vlan?.mode),
    port("vlan", "VLAN tag", "tag", vlan?.tag),
    port("vlan", "trunk VLANs", "trunks", [...new Set(vlan?.trunks)]),
    port("vlan", "customer VLANs", "cvlans", [...new Set(vlan?.customerVlans)]),
    port("vlan", "tunnel EtherType", "other_config", vlan?.tunnelEthertype, "qinq-ethtype"),
    port("isolated", "isolation", "protected", isolated),
    row("fromGuest", "rate from the guest (kbit/s)", "ingress_policing_rate", rate),
    row("fromGuest", "burst from the guest (kbit)", "ingress_policing_burst", burst),
    row("transmitRetries", "transmit retries", "options", transmitRetries, "tx-retries-max"),
    row("receiveQueueCores", "receive queue cores", "other_config", cores, "pmd-rxq-affinity"),
    ...[...names].flatMap((setting) => {
      if (!setting.startsWith(EXTERNAL_ID)) return [];
      const key = setting.slice(EXTERNAL_ID.length);
      return [row(setting, `external_ids:${key}`, "external_ids", externalIds.get(key), key)];
    }),
  ];
  return cells.filter(({ setting }) => names.has(setting));
}

/** One thing that is not as asked, in words. */
export interface SettingDifference {
  readonly what: string;
  readonly is: string;
  readonly asked: string;
}

/**
 * Pure: which settings a port does not have as asked. A setting that is not asked for differs only where we have
 * set it once; what others set is theirs.
 * @param limits our QoS rows for this port
 */
export function settingDifferences(
  settings: PortSettings,
  port: PortRow,
  row: InterfaceRow,
  limits: readonly QosRow[],
): readonly SettingDifference[] {
  const found = settingCells(settings, settingsBefore(port)).map((cell) => {
    const held = cell.table === "Port" ? port[cell.column] : row[cell.column];
    const is = typeof held === "object" && "get" in held ? held.get(cell.key ?? "") : held;
    return { what: cell.what, is: describeValue(is), asked: describeValue(cell.asked) };
  });
  const isOurLimit = limits.some(({ _uuid }) => _uuid === port.qos);
  if (settings.toGuest !== undefined || isOurLimit) {
    const asked = describeLimit(limitOf(settings));
    found.push({ what: "limit towards the guest", is: describeLimitOf(port, limits), asked });
  }
  return found.filter(({ is, asked }) => is !== asked);
}

/** A cell's value for people, and for comparison: sets have no order. */
function describeValue(value: CellValue): string {
  if (value === undefined) return "none";
  if (typeof value !== "object") return String(value);
  return value.length === 0 ? "none" : value.toSorted((one, other) => one - other).join(",");
}

/** Sets these cells, and `further` columns, of one row; other keys of map columns, which are others', stay. */
export function writeCells(
  cells: readonly Cell[],
  table: Cell["table"],
  uuid: OvsdbValue,
  further: Row = {},
): Operation[] {
  const where = [["_uuid", "==", uuid]] as const;
  const row: Record<string, OvsdbValue> = { ...further };
  const operations: Operation[] = [];
  for (const { column, key, asked } of cells.filter((cell) => cell.table === table)) {
    if (key === undefined) {
      row[column] = typeof asked === "object" ? setValue(asked) : (asked ?? setValue([]));
    } else {
      operations.push({
        op: "mutate",
        table,
        where,
        mutations: [
          [column, "delete", setValue([key])], // an insert does not change an existing key
          [column, "insert", mapValue(asked === undefined ? {} : { [key]: String(asked) })],
        ],
      });
    }
  }
  return Object.keys(row).length === 0 ? operations : [{ op: "update", table, where, row }, ...operations];
}
