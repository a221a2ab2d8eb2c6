import type { PortSettings } from "../../config/port-settings.ts";
import { policingColumns } from "./rates.ts";
import type { InterfaceRow, PortRow } from "./rows.ts";

/** What a cell holds; undefined is an empty optional column, or a key that its map lacks. */
export type CellValue = string | number | boolean | readonly number[] | undefined;

/** A column of Port or Interface, or one key of a map column, that a setting decides. */
export interface Cell {
  /** The setting's name in the port's mark: see {@link settingNames}. */
  readonly setting: string;
  readonly table: "Port" | "Interface";
  readonly column: string;
  /** Of a map column. */
  readonly key?: string;
  /** Its name for people. */
  readonly what: string;
  /** As it is to be; the switch's default where the setting is absent. */
  readonly value: CellValue;
  readonly read: (port: PortRow, row: InterfaceRow) => CellValue;
}

const EXTERNAL_ID = "id:";

/**
 * Names of all settings that are given, as the port's mark tells them: only what we have set is ever reset.
 * They hold no blank (check-settings.ts), so that a mark can join them by blanks.
 */
export function settingNames(settings: PortSettings): readonly string[] {
  const { vlan, fromGuest, toGuest, transmitRetries, receiveQueueCores, isolated, security } = settings;
  const given = { vlan, fromGuest, toGuest, transmitRetries, receiveQueueCores, isolated, security };
  const names = Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [name]));
  return [...names, ...Object.keys(settings.externalIds ?? {}).map((key) => EXTERNAL_ID + key)].sort();
}

/** Cells of the settings that are given, and of those in `before`, which were given once and are to be reset. */
export function settingCells(settings: PortSettings, before: ReadonlySet<string>): readonly Cell[] {
  const names = new Set([...settingNames(settings), ...before]);
  return [...fixedCells(settings), ...externalIdCells(settings, names)].filter(({ setting }) =>
    names.has(setting),
  );
}

/** Whether the switch has it as it is to be; sets have no order. */
export function isAsAsked(cell: Cell, port: PortRow, row: InterfaceRow): boolean {
  return describeCell(cell.read(port, row)) === describeCell(cell.value);
}

/** A cell's value for people, and for comparison. */
export function describeCell(value: CellValue): string {
  if (value === undefined) return "none";
  if (typeof value !== "object") return String(value);
  return value.length === 0 ? "none" : value.toSorted((one, other) => one - other).join(",");
}

function fixedCells({
  vlan,
  fromGuest,
  transmitRetries,
  receiveQueueCores,
  isolated,
}: PortSettings): readonly Cell[] {
  const policing = fromGuest === undefined ? { rate: 0, burst: 0 } : policingColumns(fromGuest);
  const unique = (vlans: readonly number[] | undefined) => [...new Set(vlans)];
  return [
    {
      ...portCell("vlan", "vlan_mode", "VLAN mode"),
      value: vlan?.mode,
      read: (port) => port.vlan_mode,
    },
    { ...portCell("vlan", "tag", "VLAN tag"), value: vlan?.tag, read: (port) => port.tag },
    {
      ...portCell("vlan", "trunks", "trunk VLANs"),
      value: unique(vlan?.trunks),
      read: (port) => port.trunks,
    },
    {
      ...portCell("vlan", "cvlans", "customer VLANs"),
      value: unique(vlan?.customerVlans),
      read: (port) => port.cvlans,
    },
    {
      ...portCell("vlan", "other_config", "tunnel EtherType"),
      key: "qinq-ethtype",
      value: vlan?.tunnelEthertype,
      read: (port) => port.other_config.get("qinq-ethtype"),
    },
    {
      ...portCell("isolated", "protected", "isolation"),
      value: isolated ?? false,
      read: (port) => port.protected,
    },
    {
      ...interfaceCell("fromGuest", "ingress_policing_rate", "rate from the guest (kbit/s)"),
      value: policing.rate,
      read: (_, row) => row.ingress_policing_rate,
    },
    {
      ...interfaceCell("fromGuest", "ingress_policing_burst", "burst from the guest (kbit)"),
      value: policing.burst,
      read: (_, row) => row.ingress_policing_burst,
    },
    {
      ...interfaceCell("transmitRetries", "options", "transmit retries"),
      key: "tx-retries-max",
      value: transmitRetries === undefined ? undefined : String(transmitRetries),
      read: (_, row) => row.options.get("tx-retries-max"),
    },
    {
      ...interfaceCell("receiveQueueCores", "other_config", "receive queue cores"),
      key: "pmd-rxq-affinity",
      value: receiveQueueCores?.map((pair) => pair.join(":")).join(","),
      read: (_, row) => row.other_config.get("pmd-rxq-affinity"),
    },
  ];
}

function externalIdCells(settings: PortSettings, names: ReadonlySet<string>): readonly Cell[] {
  const asked = new Map(Object.entries(settings.externalIds ?? {}));
  return [...names].flatMap((setting): Cell[] => {
    if (!setting.startsWith(EXTERNAL_ID)) return [];
    const key = setting.slice(EXTERNAL_ID.length);
    return [
      {
        ...interfaceCell(setting, "external_ids", `external_ids:${key}`),
        key,
        value: asked.get(key),
        read: (_, row) => row.external_ids.get(key),
      },
    ];
  });
}

const portCell = (setting: string, column: string, what: string) =>
  ({ setting, table: "Port", column, what }) as const;
const interfaceCell = (setting: string, column: string, what: string) =>
  ({ setting, table: "Interface", column, what }) as const;
