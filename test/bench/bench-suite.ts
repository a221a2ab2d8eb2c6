import type { OvsDpdk } from "../lab/ovs-dpdk.ts";
import type { LabRun } from "../machine/lab-run.ts";
import type { Figure, SuiteDefinition } from "./measurement.ts";
import { runSuite } from "./run-suite.ts";

/** What a suite is given: a run that gives everything back, and a switch without a port. */
export interface Bench {
  readonly run: LabRun;
  readonly ovs: OvsDpdk;
  /** Everything once and on little: shows that the suite works, its figures mean nothing. */
  readonly isTrial?: boolean;
}

/** A suite as the program sees it. */
export interface Suite {
  readonly name: string;
  readonly peer: string | null;
  /** Builds the rig and takes all figures; whatever it started goes with the bench's run. */
  readonly figures: (bench: Bench) => Promise<readonly Figure[]>;
}

/** Joins a suite's measurements with what they are taken on. */
export function benchSuite<Rig>(
  definition: SuiteDefinition<Rig>,
  open: (bench: Bench) => Promise<Rig>,
): Suite {
  return {
    name: definition.name,
    peer: definition.peer,
    figures: async (bench) => {
      const { progress, cleanup } = bench.run;
      const { isTrial } = bench;
      return runSuite(definition, await open(bench), { progress, signal: cleanup.signal, isTrial });
    },
  };
}
