import { createHash, randomInt } from "node:crypto";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Command } from "../model/ipam/commands.ts";
import type { IpamCluster } from "../model/ipam/ipam-cluster.ts";
import { ModelFailure, newCounts, runArbitrary, runModel } from "../model/ipam/run-model.ts";
import { shorten } from "../model/shorten.ts";
import { simulateFiles } from "../model/simulated-files.ts";

const { KUBE_VHOSTUSER_IPAM_STEPS, KUBE_VHOSTUSER_IPAM_SEED } = process.env;
/** Of all seeds together; the soak takes more. */
const STEPS = Number(KUBE_VHOSTUSER_IPAM_STEPS ?? 100_000);
/** The soak has another one each time. */
const FIRST_SEED = Number(KUBE_VHOSTUSER_IPAM_SEED ?? (KUBE_VHOSTUSER_IPAM_STEPS ? randomInt(2 ** 31) : 1));
const SEEDS = [0, 1, 2, 3].map((index) => FIRST_SEED + index);
const STEPS_OF_A_RUN = 100;
/** To make a counterexample shorter: half a minute. */
const STEPS_TO_SHORTEN = 60_000;
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

type Prepare = (cluster: IpamCluster) => void;

/** Runs until so many steps are done, or one breaks an invariant. */
async function explore(seed: number, steps: number, prepare?: Prepare) {
  const counts = newCounts();
  for (let from = seed; counts.steps < steps; from += 1_000_003) {
    const run = async ([of, commands]: [number, Command[]]) => runModel(of, commands, counts, prepare);
    const property = fc.asyncProperty(runArbitrary(STEPS_OF_A_RUN), run);
    const { counterexample, errorInstance } = await fc.check(property, {
      ...{ seed: from, numRuns: 20, endOnFailure: true },
    });
    if (counterexample !== null) return { counts, counterexample: counterexample[0], error: errorInstance };
  }
  return { counts, counterexample: undefined, error: undefined };
}

/** The shortest commands that were found to break the same invariant, and what happened then. */
async function describeShortest([of, commands]: [number, Command[]], first: unknown): Promise<string> {
  const invariantOf = (error: unknown) => String(error).split(":")[1];
  let last = first;
  const left = await shorten(commands, STEPS_TO_SHORTEN, async (some) => {
    const error = await runModel(of, some).catch((thrown: unknown) => thrown);
    const fails = error !== undefined && invariantOf(error) === invariantOf(first);
    if (fails) last = error;
    return fails;
  });
  const lines = last instanceof ModelFailure ? last.lines : [];
  return [`${last}`, `runModel(${of}, ${JSON.stringify(left)})`, ...lines].join("\n");
}

/** The ids of journals, and the directories of programs. */
const NAMES_OF_A_RUN = /\b(?!0{8}-)[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}\b|\/simulated\/\d+/g;

/** A digest of everything that happens in a run, but for names that no decision depends on. */
async function digestOf([of, commands]: [number, Command[]]): Promise<string> {
  const hash = createHash("sha256");
  const counts = newCounts();
  await runModel(of, commands, counts, (cluster) => {
    const note = cluster.note.bind(cluster);
    cluster.note = (line) => {
      hash.update(`${cluster.simulation.nowMs} ${line.replaceAll(NAMES_OF_A_RUN, "")}\n`);
      note(line);
    };
  });
  return `${hash.digest("hex")} ${JSON.stringify(counts)}`;
}

describe("addresses of a cluster in which everything fails", () => {
  it.each(SEEDS)(
    "have one owner, rest, are on disk, and come back (seed %i)",
    async (seed) => {
      const { counts, counterexample, error } = await explore(seed, STEPS / SEEDS.length);
      console.log(`seed ${seed}: ${JSON.stringify(counts)}`);
      const failure = counterexample && (await describeShortest(counterexample, error));
      expect(failure, `seed ${seed}`).toBeUndefined();
      expect(counts.given).toBeGreaterThan(counts.steps / 50);
    },
    NEVER_MS,
  );

  it("repeat a run exactly for the same seed", async () => {
    const runs = fc.sample(runArbitrary(STEPS_OF_A_RUN), { seed: FIRST_SEED, numRuns: 10 });
    for (const run of runs) expect(await digestOf(run)).toBe(await digestOf(run));
  });
});

describe("the model finds", () => {
  const finds = async (invariant: string, prepare: Prepare) => {
    const { error } = await explore(11, 40_000, prepare);
    expect(error).toBeInstanceOf(ModelFailure);
    expect(String(error)).toMatch(new RegExp(`^Error: (${invariant}):`));
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
