import { readFile } from "node:fs/promises";
import type { Narrator } from "../../scripts/narrator.mjs";
import { describeThrown } from "../../src/failure/failure.ts";
import { plural } from "../../src/status/words.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { RoundFailure, runRound } from "./round.ts";
import { type SoakWorld, startSoakWorld } from "./soak-world.ts";

/** How long, and which way. */
export interface SoakOptions {
  /** Of the first round; each one after has the next number. */
  readonly seed: number;
  /** No round begins later than so many minutes after the first one. */
  readonly minutes: number;
  /** Most rounds. */
  readonly rounds: number;
  readonly narrator: Narrator;
}

const LAST_LINES = 60;
/** What the switch says at every change of a port. */
const CHATTER =
  /dpif_netdev\|INFO|VHOST_CONFIG.*(socket created|segmentation|Linear|reconnecting|No such file)/;

/**
 * Rounds until the time is over or one fails, which is reported with what it takes to find out why.
 * @returns whether all went well
 */
export async function soak(run: LabRun, options: SoakOptions): Promise<boolean> {
  const { narrator } = options;
  const world = await narrator.step("start", "switch, nodes and guests start", async () => ({
    result: await startSoakWorld(run),
  }));
  const end = performance.now() + options.minutes * 60_000;
  let done = 0;
  for (; done < options.rounds && performance.now() < end; done++) {
    const seed = options.seed + done;
    const name = `round ${done + 1}${Number.isFinite(options.rounds) ? ` of ${options.rounds}` : ""}`;
    const minutes = Math.ceil((end - performance.now()) / 60_000);
    const doing = `seed ${seed}, no round begins after ${plural(minutes, "more minute")}`;
    try {
      await narrator.step(name, doing, async () => {
        const { steps, checked } = await runRound(world, seed);
        return { say: `seed ${seed}: ${counted(steps)} | ${checked}` };
      });
    } catch (error) {
      run.cleanup.signal.throwIfAborted();
      await report(world, seed, error, (line) => narrator.say(line));
      return false;
    }
  }
  narrator.say(`${plural(done, "round")}, seeds ${options.seed} to ${options.seed + done - 1}: all well`);
  return true;
}

/** In the order of their first time; what came several times with how often. */
function counted(steps: readonly string[]): string {
  const groups = Map.groupBy(steps, (step) => step);
  return [...groups].map(([step, all]) => (all.length === 1 ? step : `${step} (${all.length})`)).join(", ");
}

async function report(world: SoakWorld, seed: number, error: unknown, say: (line: string) => void) {
  const steps = error instanceof RoundFailure ? error.steps : [];
  const cause = error instanceof RoundFailure ? error.cause : error;
  const logs = [...world.sites.map(({ node }) => node.daemonLog), world.ovs.vswitchdLog];
  for (const log of logs) {
    const text = await readFile(log, "utf8").catch(() => "");
    const lines = text.trimEnd().split("\n");
    const relevant = lines.filter((line) => !CHATTER.test(line)).slice(-LAST_LINES);
    say(`--- the last lines of ${log}\n${relevant.join("\n")}`);
  }
  say(`--- the round of seed ${seed} failed: ${describeThrown(cause)}`);
  if (cause instanceof Error && cause.stack !== undefined) say(cause.stack);
  say(`--- steps: ${steps.join(", ")}`);
  say(`--- once more: npm run soak -- --seed=${seed} --rounds=1`);
}
