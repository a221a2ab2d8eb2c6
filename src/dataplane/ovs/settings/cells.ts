import type { PortSettings } from "../../../config/port-settings.ts";
import type { Operation, Row } from "../../../protocols/ovsdb/transaction.ts";
import { mapValue, type OvsdbValue, setValue, uuidReference } from "../../../protocols/ovsdb/values.ts";
import { burstKilobits, rateKilobits } from "../../rates.ts";
import { EXTERNAL_ID, settingNames, settingsBefore } from "../ports/marks.ts";
import type { InterfaceRow, PortRow, QosRow } from "../tables.ts";
import { describeLimit, describeLimitOf, limitOf } from "./guest-limit.ts";

/** What a cell holds; undefined is an empty optional column, or a key that its map lacks. */
type CellValue = string | number | boolean | readonly number[] | undefined;

/** A column of Port or Interface, or one key of a map column, that a setting decides. */
export interface Cell {
  /** The setting's name in the port's mark: see {@link settingNames}. */
  readonly setting: string;
  /** Its name for people. */
  readonly what: string;
  readonly table: "Port" | "Interface";
  readonly column: string;
  /** Of a map column. */
  readonly key: string | undefined;
  /** What it is to hold; the switch's default where the setting is absent. */
  readonly asked: CellValue;
  readonly read: (port: PortRow, row: InterfaceRow) => CellValue;
}

/** Pure: cells of the settings that are given, and of those in `before`, which were given once and are reset. */
export function settingCells(settings: PortSettings, before: ReadonlySet<string>): readonly Cell[] {
  const { vlan, fromGuest, transmitRetries, receiveQueueCores, isolated } = settings;
  const names = new Set([...settingNames(settings), ...before]);
  const cores = receiveQueueCores?.map((pair) => pair.join(":")).join(",");
  const externalIds = new Map(Object.entries(settings.externalIds ?? {}));
  const idCells = [...names].flatMap((name) => {
    if (!name.startsWith(EXTERNAL_ID)) return [];
    const key = name.slice(EXTERNAL_ID.length);
    return [interfaceKey(name, `external_ids:${key}`, "external_ids", key, externalIds.get(key))];
  });
  const cells = [
    portColumn("vlan", "VLAN mode", "vlan_mode", vlan?.mode),
    portColumn("vlan", "VLAN tag", "tag", vlan?.tag),
    portColumn("vlan", "trunk VLANs", "trunks", [...new Set(vlan?.trunks)]),
    portColumn("vlan", "customer VLANs", "cvlans", [...new Set(vlan?.customerVlans)]),
    portKey("vlan", "tunnel EtherType", "other_config", "qinq-ethtype", vlan?.tunnelEthertype),
    portColumn("isolated", "isolation", "protected", isolated ?? false),
    interfaceColumn(
      "fromGuest",
      "rate from the guest (kbit/s)",
      "ingress_policing_rate",
      fromGuest === undefined ? 0 : rateKilobits(fromGuest),
    ),
    interfaceColumn(
      "fromGuest",
      "burst from the guest (kbit)",
      "ingress_policing_burst",
      fromGuest === undefined ? 0 : burstKilobits(fromGuest),
    ),
    interfaceKey("transmitRetries", "transmit retries", "options", "tx-retries-max", transmitRetries),
    interfaceKey("receiveQueueCores", "receive queue cores", "other_config", "pmd-rxq-affinity", cores),
    ...idCells,
  ];
  return cells.filter(({ setting }) => names.has(setting));
}

type PortColumn = "vlan_mode" | "tag" | "trunks" | "cvlans" | "protected";
type PolicingColumn = "ingress_policing_rate" | "ingress_policing_burst";

function portColumn(setting: string, what: string, column: PortColumn, asked: CellValue): Cell {
  return { setting, what, table: "Port", column, key: undefined, asked, read: (port) => port[column] };
}

function portKey(setting: string, what: string, column: "other_config", key: string, asked: CellValue): Cell {
  return { setting, what, table: "Port", column, key, asked, read: (port) => port[column].get(key) };
}

function interfaceColumn(setting: string, what: string, column: PolicingColumn, asked: CellValue): Cell {
  return { setting, what, table: "Interface", column, key: undefined, asked, read: (_, row) => row[column] };
}

function interfaceKey(
  setting: string,
  what: string,
  column: "options" | "other_config" | "external_ids",
  key: string,
  asked: CellValue,
): Cell {
  return { setting, what, table: "Interface", column, key, asked, read: (_, row) => row[column].get(key) };
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
  const found = settingCells(settings, settingsBefore(port.external_ids)).map((cell) => ({
    what: cell.what,
    is: describeValue(cell.read(port, row)),
    asked: describeValue(cell.asked),
  }));
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

/** Columns for a new row of this table, with `maps` for the map columns that hold more than settings. */
export function cellColumns(
  cells: readonly Cell[],
  table: Cell["table"],
  maps: Readonly<Record<string, Readonly<Record<string, string>>>>,
): Row {
  const row: Record<string, OvsdbValue> = {};
  const entries = new Map(Object.entries(maps).map(([column, map]) => [column, { ...map }]));
  for (const cell of cells) {
    if (cell.table !== table) continue;
    if (cell.key === undefined) row[cell.column] = columnValue(cell);
    else if (cell.asked !== undefined) {
      entries.set(cell.column, { ...entries.get(cell.column), [cell.key]: String(cell.asked) });
    }
  }
  for (const [column, map] of entries) row[column] = mapValue(map);
  return row;
}

/** Sets these cells, and `further` columns, of one row; other keys of map columns, which are others', stay. */
export function writeCells(
  cells: readonly Cell[],
  table: Cell["table"],
  uuid: string,
  further: Row = {},
): Operation[] {
  const where = [["_uuid", "==", uuidReference(uuid)]] as const;
  const row: Record<string, OvsdbValue> = { ...further };
  const operations: Operation[] = [];
  for (const cell of cells) {
    if (cell.table !== table) continue;
    const { column, key, asked } = cell;
    if (key === undefined) row[column] = columnValue(cell);
    else {
      operations.push({
        op: "mutate",
        table,
        where,
        mutations: [
          [column, "delete", setValue([key])], // an insert leaves a key that is there as it is
          [column, "insert", mapValue(asked === undefined ? {} : { [key]: String(asked) })],
        ],
      });
    }
  }
  return Object.keys(row).length === 0 ? operations : [{ op: "update", table, where, row }, ...operations];
}

function columnValue({ asked }: Cell): OvsdbValue {
  if (asked === undefined) return setValue([]);
  return typeof asked === "object" ? setValue(asked) : asked;
}
