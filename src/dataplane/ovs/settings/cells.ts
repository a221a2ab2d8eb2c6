import type { PortSettings } from "../../../config/port-settings.ts";
import type { Operation, Row } from "../../../protocols/ovsdb/transaction.ts";
import { mapValue, type OvsdbValue, setValue } from "../../../protocols/ovsdb/values.ts";
import { burstKilobits, rateKilobits } from "../../rates.ts";
import { EXTERNAL_ID, settingNames, settingsBefore } from "../ports/marks.ts";
import type { InterfaceRow, PortRow, QosRow } from "../tables.ts";
import { describeLimit, describeLimitOf, limitOf } from "./guest-limit.ts";

/** What a cell holds; undefined is an empty optional column, or a key that its map lacks. */
type CellValue = string | number | boolean | readonly number[] | undefined;

type CellPlace =
  | {
      readonly table: "Port";
      readonly column: "vlan_mode" | "tag" | "trunks" | "cvlans" | "protected" | "other_config";
    }
  | {
      readonly table: "Interface";
      readonly column:
        | "ingress_policing_rate"
        | "ingress_policing_burst"
        | "options"
        | "other_config"
        | "external_ids";
    };

/** A column of Port or Interface, or one key of a map column, that a setting decides. */
export type Cell = CellPlace & {
  /** The setting's name in the port's mark: see {@link settingNames}. */
  readonly setting: string;
  /** Its name for people. */
  readonly what: string;
  /** Of a map column, and of no other. */
  readonly key?: string;
  /** What it is to hold; the switch's default where the setting is absent. */
  readonly asked: CellValue;
};

/** Pure: cells of the settings that are given, and of those in `before`, which were given once and are reset. */
export function settingCells(settings: PortSettings, before: ReadonlySet<string>): readonly Cell[] {
  const { vlan, fromGuest, transmitRetries, receiveQueueCores, isolated = false } = settings;
  const names = new Set([...settingNames(settings), ...before]);
  const externalIds = new Map(Object.entries(settings.externalIds ?? {}));
  const port = { table: "Port" } as const;
  const ofVlan = { ...port, setting: "vlan" } as const;
  const row = { table: "Interface" } as const;
  const policing = { ...row, setting: "fromGuest" } as const;
  const rate = fromGuest === undefined ? 0 : rateKilobits(fromGuest);
  const burst = fromGuest === undefined ? 0 : burstKilobits(fromGuest);
  const cores = receiveQueueCores?.map((pair) => pair.join(":")).join(",");
  const [trunks, cvlans] = [[...new Set(vlan?.trunks)], [...new Set(vlan?.customerVlans)]];
  const ethertype = { key: "qinq-ethtype", asked: vlan?.tunnelEthertype };
  const retries = { key: "tx-retries-max", asked: transmitRetries };
  const affinity = { key: "pmd-rxq-affinity", asked: cores };
  const cells: readonly Cell[] = [
    { ...ofVlan, what: "VLAN mode", column: "vlan_mode", asked: vlan?.mode },
    { ...ofVlan, what: "VLAN tag", column: "tag", asked: vlan?.tag },
    { ...ofVlan, what: "trunk VLANs", column: "trunks", asked: trunks },
    { ...ofVlan, what: "customer VLANs", column: "cvlans", asked: cvlans },
    { ...ofVlan, what: "tunnel EtherType", column: "other_config", ...ethertype },
    { ...port, setting: "isolated", what: "isolation", column: "protected", asked: isolated },
    { ...policing, what: "rate from the guest (kbit/s)", column: "ingress_policing_rate", asked: rate },
    { ...policing, what: "burst from the guest (kbit)", column: "ingress_policing_burst", asked: burst },
    { ...row, setting: "transmitRetries", what: "transmit retries", column: "options", ...retries },
    {
      ...row,
      setting: "receiveQueueCores",
      what: "receive queue cores",
      column: "other_config",
      ...affinity,
    },
    ...[...names].flatMap((setting): Cell[] => {
      if (!setting.startsWith(EXTERNAL_ID)) return [];
      const key = setting.slice(EXTERNAL_ID.length);
      const what = `external_ids:${key}`;
      return [{ ...row, setting, what, column: "external_ids", key, asked: externalIds.get(key) }];
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
