import { startSwitch } from "../cluster/switch.ts";
import type { OvsDpdk } from "../lab/ovs-dpdk.ts";
import type { LabRun } from "../machine/lab-run.ts";
import type { Figure, SuiteDefinition } from "./measurement.ts";
import { runSuite } from "./run-suite.ts";

/** What a suite is given: a run that gives everything back. */
export interface BenchRun {
  readonly run: LabRun;
  /** A switch without a port, for suites that need one; default a suite starts its own. */
  readonly ovs?: OvsDpdk;
  /** Everything once and on little: shows that the suite works, its figures mean nothing. */
  readonly isTrial?: boolean;
}

/** A run in which there is a switch. */
export type Bench = BenchRun & Required<Pick<BenchRun, "ovs">>;

/** A suite as the program sees it. */
export interface Suite {
  readonly name: string;
  readonly peer: string | null;
  /** Builds the rig and takes all figures; whatever it started goes with the bench's run. */
  readonly figures: (bench: BenchRun) => Promise<readonly Figure[]>;
}

/** Joins a suite's measurements with what they are taken on, which needs a switch. */
export function benchSuite<Rig>(
  definition: SuiteDefinition<Rig>,
  open: (bench: Bench) => Promise<Rig>,
): Suite {
  return suiteWithoutSwitch(definition, async (bench) =>
    open({ ...bench, ovs: bench.ovs ?? (await startSwitch(bench.run, 0)) }),
  );
}

/** Joins a suite's measurements with what they are taken on, which brings its own switches or needs none. */
export function suiteWithoutSwitch<Rig>(
  definition: SuiteDefinition<Rig>,
  open: (bench: BenchRun) => Promise<Rig>,
): Suite {
  return {
    name: definition.name,
    peer: definition.peer,
    figures: async (bench) => {
      const { show, cleanup } = bench.run;
      const { isTrial } = bench;
      return runSuite(definition, await open(bench), { show, signal: cleanup.signal, isTrial });
    },
  };
}
