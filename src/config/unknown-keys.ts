import type * as z from "zod";
import { similarKey } from "../names/similar-key.ts";

/** A key that a schema does not have. */
export interface UnknownKey {
  readonly path: readonly PropertyKey[];
  /** The key of the same object that was probably meant. */
  readonly meant: string | undefined;
}

/** The unknown keys among a strict schema's issues. @param alsoMeant further keys that a top-level one may resemble */
export function unknownKeys(
  schema: z.ZodType,
  issues: readonly z.core.$ZodIssue[],
  alsoMeant: readonly string[] = [],
): readonly UnknownKey[] {
  return issues.flatMap((issue) => {
    if (issue.code !== "unrecognized_keys") return [];
    const known = [...keysAt(schema, issue.path), ...(issue.path.length === 0 ? alsoMeant : [])];
    return issue.keys.map((key) => ({ path: [...issue.path, key], meant: similarKey(key, known) }));
  });
}

/** What schemas are made of, as far as objects with keys are below it. */
interface SchemaParts {
  readonly shape?: Readonly<Record<PropertyKey, z.ZodType>>;
  readonly options?: readonly z.ZodType[];
  readonly element?: z.ZodType;
  readonly valueType?: z.ZodType;
  readonly innerType?: z.ZodType;
  readonly in?: z.ZodType;
}

/** Keys of the object at a path; of all alternatives where there are some. */
function keysAt(schema: z.ZodType | undefined, path: readonly PropertyKey[]): readonly string[] {
  if (schema === undefined) return [];
  const { shape, options, element, valueType, innerType, in: input } = schema.def as SchemaParts;
  const [key, ...rest] = path;
  if (options !== undefined) return options.flatMap((one) => keysAt(one, path));
  if (innerType !== undefined || input !== undefined) return keysAt(innerType ?? input, path);
  if (key === undefined) return Object.keys(shape ?? {});
  return keysAt(shape?.[key] ?? element ?? valueType, rest);
}
