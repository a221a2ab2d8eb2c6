import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { DriverNode } from "../model/cni-dra/driver-node.ts";
import { type Command, runArbitrary, runModel } from "../model/cni-dra/run-model.ts";
import { shorten } from "../model/shorten.ts";
import { simulateFiles } from "../model/simulated-files.ts";

const RUNS = Number(process.env["KUBE_VHOSTUSER_CNI_DRA_RUNS"] ?? 60);
const COMMANDS_TO_SHORTEN = 20_000;

type Kind = "containerd" | "cri-o";

let restore: () => void;
let top: string;
let stackTraceLimit: number;
beforeAll(async () => {
  top = await mkdtemp(join(tmpdir(), "kvu-cni-dra-model-"));
  restore = simulateFiles();
  ({ stackTraceLimit } = Error);
  Error.stackTraceLimit = 0;
});
afterAll(async () => {
  restore();
  Error.stackTraceLimit = stackTraceLimit;
  await rm(top, { recursive: true });
});

/** @returns what is broken, by the shortest commands that were found, and how many interfaces were made */
async function explore(kind: Kind, runs: number, prepare?: (node: DriverNode) => void) {
  let added = 0;
  const run = (seed: number, commands: readonly Command[]) =>
    runModel(seed, commands, kind, join(top, "ready"), prepare);
  const property = fc.asyncProperty(runArbitrary, async ([seed, commands]) => {
    added += await run(seed, commands);
  });
  const { counterexample, errorInstance } = await fc.check(property, {
    seed: 1,
    numRuns: runs,
    endOnFailure: true,
  });
  if (counterexample === null) return { added, failure: undefined };
  const [[seed, commands]] = counterexample;
  let failure = String(errorInstance);
  if (prepare === undefined)
    await shorten(commands, COMMANDS_TO_SHORTEN, async (some) => {
      const error = await run(seed, some).catch((thrown: unknown) => thrown);
      if (error instanceof Error) failure = `${error.message}\nrunModel(${seed}, ${JSON.stringify(some)})`;
      return error instanceof Error;
    });
  return { added, failure };
}

describe.each<Kind>(["containerd", "cri-o"])(
  "interfaces of claims with %s, where everything fails",
  (kind) => {
    it("are there before containers run, and leave nothing behind", async () => {
      const { added, failure } = await explore(kind, RUNS);
      expect(failure).toBeUndefined();
      expect(added).toBeGreaterThan(RUNS);
    });
  },
);

describe("the model finds", () => {
  const finds = async (what: RegExp, prepare: (node: DriverNode) => void) =>
    expect((await explore("containerd", 60, prepare)).failure).toMatch(what);

  it("an ADD that is not on disk before it runs", () =>
    finds(/addresses are left|a second ADD/, ({ defects }) => {
      defects.writesAfterAdd = true;
    }));

  it("containers that are not held back", () =>
    finds(/runs without/, ({ defects }) => {
      defects.asksOnce = true;
    }));

  it("files that say that a sandbox is ready which has ended", () =>
    finds(/runs without/, ({ defects }) => {
      defects.trustsFiles = true;
    }));
});
