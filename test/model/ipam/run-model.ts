import fc from "fast-check";
import { COMMANDS, type Command, step, WAITS } from "./commands.ts";
import { IpamCluster } from "./ipam-cluster.ts";

/** What runs did. */
export interface ModelCounts {
  steps: number;
  events: number;
  given: number;
  refused: number;
  blockWrites: number;
  quarantined: number;
}

export const newCounts = (): ModelCounts => ({
  ...{ steps: 0, events: 0, given: 0, refused: 0, blockWrites: 0, quarantined: 0 },
});

/** Simulated minutes after which nothing may be left of what is over. */
const PEACE_MINUTES = 11;

const kinds = Object.entries(COMMANDS).flatMap(([kind, [weight]]) =>
  Array.from({ length: weight }, () => kind as keyof typeof COMMANDS),
);
const waits = WAITS.flatMap(([ms, weight]) => Array.from({ length: weight }, () => ms));

const command: fc.Arbitrary<Command> = fc.record({
  kind: fc.constantFrom(...kinds),
  node: fc.nat(2),
  value: fc.nat(11),
  waitMs: fc.constantFrom(...waits),
});

/** A seed for what is left to chance, and commands in their order. */
export function runArbitrary(steps: number): fc.Arbitrary<[seed: number, commands: Command[]]> {
  return fc.tuple(fc.nat(), fc.array(command, { maxLength: steps * 2, size: "max" }));
}

/** Runs commands on a fresh cluster, and then in peace. @throws Error with what is broken and what happened before */
export async function runModel(
  seed: number,
  commands: readonly Command[],
  counts?: ModelCounts,
  prepare: (cluster: IpamCluster) => void = () => undefined,
): Promise<void> {
  const cluster = new IpamCluster(seed);
  prepare(cluster);
  const fail = () => {
    const { violation } = cluster.invariants;
    if (violation !== undefined) throw new ModelFailure(violation, cluster.lines);
  };
  try {
    cluster.start();
    for (const one of commands) {
      await step(cluster, one);
      fail();
    }
    cluster.note("> peace");
    await cluster.makePeace(PEACE_MINUTES);
    cluster.invariants.check();
    cluster.invariants.checkPeace();
    fail();
  } finally {
    cluster.close();
    if (counts !== undefined) {
      const { given, refused, blockWrites, quarantined } = cluster.invariants.counts;
      counts.steps += commands.length;
      counts.events += cluster.simulation.events;
      counts.given += given;
      counts.refused += refused;
      counts.blockWrites += blockWrites;
      counts.quarantined += quarantined;
    }
  }
}

/** An invariant that is broken. */
export class ModelFailure extends Error {
  readonly lines: readonly string[];

  constructor(violation: string, lines: readonly string[]) {
    super(violation);
    this.lines = [...lines];
  }
}
