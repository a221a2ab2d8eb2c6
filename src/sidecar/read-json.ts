import type { z } from "zod";
import type { FailureCode } from "../failure/catalogue.ts";
import { describeThrown, Failure } from "../failure/failure.ts";

/** What a JSON text must be, and what a text that is not becomes. */
export interface JsonContract<Shape> {
  readonly schema: z.ZodType<Shape>;
  readonly code: FailureCode;
  /** Whose text it is, for example the path of a file. */
  readonly where: string;
  readonly fix: string;
}

/**
 * Values, and levels of nesting, that a text may have: parsing takes some hundred bytes for each value, and the
 * sidecar has 64 MB. A VM with a hundred disks has about 2 000 values.
 */
const MOST_VALUES = 50_000;
const DEEPEST = 100;

/**
 * Reads a JSON text of somebody else: what it holds beyond the schema is dropped.
 * @throws Failure with the contract's code, naming the first key that is wrong
 */
export function readJson<Shape>(text: string, contract: JsonContract<Shape>): Shape {
  const { code, where, fix } = contract;
  const excess = findExcess(text);
  if (excess !== undefined) throw new Failure({ code, what: excess, where, fix });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new Failure({ code, what: `it is not JSON: ${describeThrown(cause)}`, where, fix, cause });
  }
  const result = contract.schema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const key = issue?.path.length ? issue.path.join(".") : "the document";
  throw new Failure({ code, what: `${key}: ${issue?.message ?? "wrong"}`, where, fix });
}

/** Says what of a text is too much to be parsed. Counts without parsing, in one pass. */
function findExcess(text: string): string | undefined {
  let values = 0;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === '"') at = endOfString(text, at);
    else if (character === "," || character === ":") values++;
    else if (character === "{" || character === "[") {
      values++;
      depth++;
    } else if (character === "}" || character === "]") depth--;
    if (values > MOST_VALUES) return `it has more than ${MOST_VALUES} values`;
    if (depth > DEEPEST) return `it is nested more than ${DEEPEST} levels deep`;
  }
  return undefined;
}

function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === '"') return at;
  }
  return text.length;
}
