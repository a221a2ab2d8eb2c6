import * as z from "zod";

/** A value as it goes over the wire (RFC 7047 section 5.1). */
export type OvsdbValue =
  | string
  | number
  | boolean
  | readonly ["uuid" | "named-uuid", string]
  | readonly ["set", readonly unknown[]]
  | readonly ["map", readonly (readonly [unknown, unknown])[]];

/** Reference to a row by its uuid. */
export const uuidReference = (uuid: string): OvsdbValue => ["uuid", uuid];

/** Reference to a row that the same transaction inserts. */
export const newRowReference = (name: string): OvsdbValue => ["named-uuid", name];

/** A set of any size; the empty set clears an optional column. */
export const setValue = (elements: readonly OvsdbValue[]): OvsdbValue => ["set", elements];

/** A map of strings, such as options and external_ids. */
export const mapValue = (entries: Readonly<Record<string, string>>): OvsdbValue => [
  "map",
  Object.entries(entries),
];

/** Reads a reference as its uuid. */
export const uuidShape = z.tuple([z.literal("uuid"), z.string()]).transform(([, uuid]) => uuid);

/** Reads a set, which has its bare element on the wire when it has exactly one. */
export function setShape<Element extends z.ZodType>(element: Element) {
  return z.union([
    z.tuple([z.literal("set"), z.array(element)]).transform(([, elements]) => elements),
    element.transform((only) => [only]),
  ]);
}

/** Reads an optional column: a set of none or one. */
export function optionalShape<Element extends z.ZodType>(element: Element) {
  return setShape(element)
    .refine((elements) => elements.length <= 1, "more than one element in an optional column")
    .transform((elements) => elements[0]);
}

/** Reads a map of strings. A Map, because keys such as `__proto__` come from others. */
export const stringMapShape = z
  .tuple([z.literal("map"), z.array(z.tuple([z.string(), z.string()]))])
  .transform(([, pairs]): ReadonlyMap<string, string> => new Map(pairs));

/**
 * Reads a map of strings to integers, such as statistics. By hand: a port has eighty of them, and a thousand ports took
 * zod's own maps 0.2 s.
 */
export const numberMapShape = z
  .custom<readonly ["map", readonly (readonly [string, number])[]]>(isNumberMap, "must be a map of integers")
  .transform(([, pairs]): ReadonlyMap<string, number> => new Map(pairs));

function isNumberMap(value: unknown): boolean {
  if (!Array.isArray(value) || value.length !== 2 || value[0] !== "map" || !Array.isArray(value[1]))
    return false;
  return value[1].every(
    (pair: unknown) =>
      Array.isArray(pair) && pair.length === 2 && typeof pair[0] === "string" && typeof pair[1] === "number",
  );
}
