import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import type * as z from "zod";
import type { FailureCode } from "../failure/catalogue.ts";
import { describeThrown, Failure, systemCode } from "../failure/failure.ts";

/** The schema of a JSON text, and the failure where it does not match. */
export interface JsonContract<Shape> {
  readonly schema: z.ZodType<Shape>;
  readonly code: FailureCode;
  /** Where the text comes from, for example the path of a file. */
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
 * Reads a JSON text of another program; keys that the schema does not have are dropped.
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

/** What of a text exceeds the bounds, counted in one pass without parsing. */
function findExcess(text: string): string | undefined {
  let values = 0;
  let depth = 0;
  for (const at of punctuation(text)) {
    const mark = text[at];
    if (mark === "}" || mark === "]") depth--;
    else values++;
    if (mark === "{" || mark === "[") depth++;
    if (values > MOST_VALUES) return `it has more than ${MOST_VALUES} values`;
    if (depth > DEEPEST) return `it is nested more than ${DEEPEST} levels deep`;
  }
  return undefined;
}

/** Where a JSON text has brackets, commas and colons outside of its strings. */
function* punctuation(text: string): Generator<number> {
  let isInString = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at] ?? "";
    if (isInString && character === "\\") at++;
    else if (character === '"') isInString = !isInString;
    else if (!isInString && "{}[]:,".includes(character)) yield at;
  }
}

/**
 * The objects of a text that holds several, one behind the other, each as its text. What is not closed at the end is
 * returned unchanged, for a parser to complain about.
 */
export function splitJsonStream(text: string): string[] {
  const parts: string[] = [];
  let start = 0;
  let depth = 0;
  for (const at of punctuation(text)) {
    const mark = text[at];
    if (mark === "{" || mark === "[") depth++;
    else if (mark === "}" || mark === "]") {
      depth--;
      if (depth > 0) continue;
      parts.push(text.slice(start, at + 1));
      start = at + 1;
      depth = 0;
    }
  }
  const rest = text.slice(start);
  return rest.trim() === "" ? parts : [...parts, rest];
}

/** Bytes; Kubernetes lets all annotations of a pod together have 256 KiB. */
const MOST_BYTES = 1024 * 1024;

/**
 * The text of a file that KubeVirt or a driver wrote, or undefined where it does not exist. Read at once: five calls to
 * Node's thread pool for each file take longer than the rest of a hook call.
 * @throws Failure with `code` where it is too large or cannot be read
 */
export function readBounded(file: string, code: FailureCode): string | undefined {
  let handle: number | undefined;
  try {
    handle = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
    const { size } = fstatSync(handle);
    if (size <= MOST_BYTES) {
      const buffer = Buffer.alloc(size);
      return buffer.toString("utf8", 0, readSync(handle, buffer, 0, size, 0));
    }
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw new Failure({
      code,
      what: `it cannot be read: ${systemCode(error) ?? String(error)}`,
      where: file,
      fix: "give the sidecar's user (107 in a rootless pod) the right to read it",
      cause: error,
    });
  } finally {
    if (handle !== undefined) closeSync(handle);
  }
  throw new Failure({
    code,
    what: `it has more than ${MOST_BYTES} bytes`,
    where: file,
    fix: "check the program that writes it: it holds a line or two for each interface",
  });
}
