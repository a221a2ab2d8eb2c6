import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Command } from "../model/ipam/commands.ts";
import type { IpamCluster } from "../model/ipam/ipam-cluster.ts";
import { ModelFailure, newCounts, runArbitrary, runModel } from "../model/ipam/run-model.ts";
import { simulateFiles } from "../model/simulated-files.ts";

/** Of all seeds together; the soak takes more. */
const STEPS = Number(process.env["KUBE_VHOSTUSER_IPAM_STEPS"] ?? 100_000);
/** The last one can be given. A seed does not repeat a run exactly: the counterexample is printed. */
const SEEDS = [1, 2, 3, Number(process.env["KUBE_VHOSTUSER_IPAM_SEED"] ?? 4)];
const STEPS_OF_A_RUN = 100;
const NEVER_MS = 24 * 3_600_000;

let restore: () => void;
let stackTraceLimit: number;
beforeAll(() => {
  restore = simulateFiles();
  // Requests fail all the time; where is of no interest.
  ({ stackTraceLimit } = Error);
  Error.stackTraceLimit = 0;
});
afterAll(() => {
  restore();
  Error.stackTraceLimit = stackTraceLimit;
});

/** Runs until so many steps are done, or one breaks an invariant: that is made as short as it can be. */
async function explore(seed: number, steps: number, prepare?: (cluster: IpamCluster) => void) {
  const counts = newCounts();
  for (let from = seed; counts.steps < steps; from += 1_000_003) {
    const run = async ([of, commands]: [number, Command[]]) => runModel(of, commands, counts, prepare);
    const property = fc.asyncProperty(runArbitrary(STEPS_OF_A_RUN), run);
    const result = await fc.check(property, { seed: from, numRuns: 20 });
    if (result.failed) return { counts, result };
  }
  return { counts, result: undefined };
}

describe("addresses of a cluster in which everything fails", () => {
  it.each(SEEDS)(
    "have one owner, rest, are on disk, and come back (seed %i)",
    async (seed) => {
      const { counts, result } = await explore(seed, STEPS / SEEDS.length);
      console.log(`seed ${seed}: ${JSON.stringify(counts)}`);
      const [of, commands] = result?.counterexample?.[0] ?? [];
      const { errorInstance: error } = result ?? {};
      const lines = error instanceof ModelFailure ? error.lines : [];
      expect(
        result && [error, `cluster ${of}`, JSON.stringify(commands), ...lines].join("\n"),
        `seed ${seed}`,
      ).toBeUndefined();
      expect(counts.given).toBeGreaterThan(counts.steps / 50);
    },
    NEVER_MS,
  );
});

describe("the model finds", () => {
  const finds = async (invariant: string, prepare: (cluster: IpamCluster) => void) => {
    const { result } = await explore(11, 40_000, prepare);
    expect(result?.errorInstance).toBeInstanceOf(ModelFailure);
    expect(String(result?.errorInstance)).toMatch(new RegExp(`^Error: (${invariant}):`));
  };

  it("a disk that does not sync", () =>
    finds("I4", ({ nodes }) => {
      for (const { machine } of nodes) machine.disk.ignoresSync = true;
    }));

  it("a DEL that ends the pod's newer sandbox", () =>
    finds("I5", ({ nodes }) => {
      for (const node of nodes) node.endsNewest = true;
    }));

  it("an API server that lets two create the same block", () =>
    finds("I1|I6|I14", ({ server }) => {
      const { store } = server;
      const create = store.create.bind(store);
      store.create = (collection, object, isDryRun) => {
        const { name } = object["metadata"] as { readonly name: string };
        if (collection !== "addressblocks" || store.find(collection, name) === undefined)
          return create(collection, object, isDryRun);
        return store.merge(collection, name, { spec: object["spec"] });
      };
    }));
});
