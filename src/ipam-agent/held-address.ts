import { describeThrown, Failure, toFailure } from "../failure/failure.ts";
import type { AddressSource } from "./address-source.ts";
import type { HeldBlock } from "./held-block.ts";
import type { Allocation } from "./journal-entries.ts";

/** An address that is held in memory or by its AddressAllocation, and not yet on disk. */
export interface Held {
  readonly source: AddressSource;
  readonly value: bigint;
  readonly block: Pick<HeldBlock, "name" | "prefix">;
  /** Of a shared block. */
  readonly shared?: Allocation["addresses"][number]["shared"];
  /** Gives up what is held in memory. */
  readonly unhold?: () => void;
}

/** What waiting may help against keeps its own words; a deadline, or a request that was refused, is named by what was tried. */
export function tryAgain(what: string, error: unknown): Failure {
  const failure = toFailure(error);
  const isOurs = failure.code !== "internal" && !failure.code.startsWith("kube-api");
  if (isOurs) return failure;
  return new Failure({
    code:
      failure.code === "internal" && !(error instanceof DOMException) ? "internal" : "kube-api-unavailable",
    what: `${what}: ${describeThrown(error)}`,
    fix: "it is tried again; check that the API server answers and that the agent's ServiceAccount has its rights",
    cause: error,
  });
}
