import type { RangeSet } from "../../addresses/range-set.ts";

/** What was found of a pool whose addresses whereabouts hands out, or has handed out. */
export interface ImportFinding {
  /** Ours by now; the pool's status may have more, which stays. */
  readonly imported: RangeSet;
  /** Addresses that pods still have from whereabouts; undefined where that is not known. */
  readonly left: number | undefined;
  /** How many of the pool's addresses are not imported yet; undefined where that is not known. */
  readonly waiting: bigint | undefined;
  /** Why some of the pool's addresses are not imported; undefined where all are, or are about to be. */
  readonly problem: ImportProblem | undefined;
}

export interface ImportProblem {
  /** Of the condition `Imported`. */
  readonly reason: "TooManyAddresses" | "NodeSlices" | "BlockOfNode" | "HandedOutTwice" | "CheckFailed";
  readonly message: string;
}
