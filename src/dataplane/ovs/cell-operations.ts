import type { Operation, Row } from "../../protocols/ovsdb/transaction.ts";
import { mapValue, type OvsdbValue, setValue, uuidReference } from "../../protocols/ovsdb/values.ts";
import type { Cell } from "./setting-cells.ts";

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
    else if (cell.value !== undefined) {
      entries.set(cell.column, { ...entries.get(cell.column), [cell.key]: String(cell.value) });
    }
  }
  for (const [column, map] of entries) row[column] = mapValue(map);
  return row;
}

/** Brings these cells, and `further` columns, of one row to their values; other keys of map columns, which are others', stay. */
export function writeCells(
  cells: readonly Cell[],
  table: Cell["table"],
  uuid: string,
  further: Row = {},
): Operation[] {
  const where = [["_uuid", "==", uuidReference(uuid)]] as const;
  const mine = cells.filter((cell) => cell.table === table);
  const columns = mine.filter(({ key }) => key === undefined);
  const keys = mine.flatMap(({ column, key, value }) => (key === undefined ? [] : [{ column, key, value }]));
  const operations: Operation[] = [];
  const row = { ...further, ...Object.fromEntries(columns.map((cell) => [cell.column, columnValue(cell)])) };
  if (Object.keys(row).length > 0) operations.push({ op: "update", table, where, row });
  for (const { column, key, value } of keys) {
    operations.push({
      op: "mutate",
      table,
      where,
      mutations: [
        [column, "delete", setValue([key])], // an insert leaves a key that is there as it is
        [column, "insert", mapValue(value === undefined ? {} : { [key]: String(value) })],
      ],
    });
  }
  return operations;
}

function columnValue({ value }: Cell): OvsdbValue {
  if (value === undefined) return setValue([]);
  return typeof value === "object" ? setValue(value) : value;
}
