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
 * Reads a JSON text of somebody else: what it holds beyond the schema is dropped.
 * @throws Failure with the contract's code, naming the first key that is wrong
 */
export function readJson<Shape>(text: string, contract: JsonContract<Shape>): Shape {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Failure({
      code: contract.code,
      what: `it is not JSON: ${describeThrown(error)}`,
      where: contract.where,
      fix: contract.fix,
      cause: error,
    });
  }
  const result = contract.schema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw new Failure({
    code: contract.code,
    what: `${issue?.path.length ? issue.path.join(".") : "the document"}: ${issue?.message ?? "wrong"}`,
    where: contract.where,
    fix: contract.fix,
  });
}
