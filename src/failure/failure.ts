import type { FailureCode } from "./catalogue.ts";

/** What a {@link Failure} is made of: the message begins with the code and says what was wrong, where, and what to do. */
export interface FailureOptions {
  readonly code: FailureCode;
  /** What is wrong, in one sentence without a full stop, with the offending value quoted. */
  readonly what: string;
  /** Where: file and key, table and column, path, verb. */
  readonly where?: string;
  /** What the reader can do about it. */
  readonly fix?: string;
  readonly cause?: unknown;
}

/** The only error that we throw on purpose. Wires translate it once, by its code. */
export class Failure extends Error {
  override readonly name = "Failure";
  readonly code: FailureCode;
  readonly what: string;
  readonly where: string | undefined;
  readonly fix: string | undefined;

  constructor(options: FailureOptions) {
    const where = options.where === undefined ? "" : ` (${options.where})`;
    const fix = options.fix === undefined ? "" : `; ${options.fix}`;
    super(
      `${options.code}: ${options.what}${where}${fix}`,
      options.cause === undefined ? {} : { cause: options.cause },
    );
    this.code = options.code;
    this.what = options.what;
    this.where = options.where;
    this.fix = options.fix;
  }
}

/** The failure of a call whose signal fired: the signal's own Failure where it carries one, else by default dataplane-timeout. */
export function timeoutFailure(
  signal: AbortSignal,
  options: Omit<FailureOptions, "code" | "cause"> & { readonly code?: FailureCode | undefined },
): Failure {
  if (signal.reason instanceof Failure) return signal.reason;
  const { code = "dataplane-timeout" } = options;
  return new Failure({ ...options, code, cause: signal.reason });
}

/** Anything thrown, as a {@link Failure}: a Failure unchanged, everything else as `internal` with its cause. */
export function toFailure(thrown: unknown): Failure {
  if (thrown instanceof Failure) return thrown;
  return new Failure({ code: "internal", what: describeThrown(thrown), cause: thrown });
}

/**
 * Whether a switch cannot be reached. Its pool's monitor logs that once, and when it is back; work that fails for it
 * meanwhile is logged for debugging.
 */
export function isSwitchAway(thrown: unknown): boolean {
  return thrown instanceof Failure && thrown.code === "dataplane-unavailable";
}

/** The text of anything thrown. */
export function describeThrown(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** The `code` of a Node system error (`ENOENT`, `EACCES`, ...), or undefined. */
export function systemCode(thrown: unknown): string | undefined {
  if (typeof thrown !== "object" || thrown === null || !("code" in thrown)) return undefined;
  return typeof thrown.code === "string" ? thrown.code : undefined;
}
