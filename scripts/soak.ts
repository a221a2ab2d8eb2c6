// npm run soak -- --seed=7 --minutes=60: guests, pods and everything that can go wrong, round after round.
import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";
import { Failure, toFailure } from "../src/failure/failure.ts";
import { openLabRun } from "../test/machine/lab-run.ts";
import { ensurePackages, requireMachine } from "../test/machine/packages.ts";
import { endOnSignals } from "../test/machine/signals.ts";
import { soak } from "../test/soak/soak.ts";
import { buildAll } from "./build/build-all.ts";

const USAGE = `npm run soak [-- --seed=N] [--minutes=N] [--rounds=N]

Rounds of pods and guests that come, go and migrate while daemons, switch, kubelet, disks and clocks fail. After each
round what there is is compared with what should be. Needs what npm test needs.

  --seed=N      of the first round; the next has N + 1 (default: at random; each round prints its own)
  --minutes=N   no round begins later (default 5)
  --rounds=N    at most so many (default: as many as the minutes hold)
`;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      seed: { type: "string", default: String(randomInt(1_000_000_000)) },
      minutes: { type: "string", default: "5" },
      rounds: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return;
  }
  const options = {
    seed: number("--seed", values.seed),
    minutes: number("--minutes", values.minutes),
    rounds: values.rounds === undefined ? Number.POSITIVE_INFINITY : number("--rounds", values.rounds),
  };
  await requireMachine();
  const say = (line: string) => console.log(`soak: ${line}`);
  const run = await openLabRun({ progress: say });
  const forget = endOnSignals(run);
  try {
    await ensurePackages(run);
    await buildAll();
    say(`seed ${options.seed}, ${options.minutes} minutes`);
    if (!(await soak(run, { ...options, say }))) process.exitCode = 1;
  } finally {
    await run.close();
    forget();
  }
}

/** @throws Failure invalid-request where it is no whole number */
function number(where: string, text: string): number {
  const value = Number(text);
  if (text !== "" && Number.isSafeInteger(value) && value >= 0) return value;
  throw new Failure({ code: "invalid-request", what: `${JSON.stringify(text)} is no whole number`, where });
}

main().catch((error: unknown) => {
  const failure = toFailure(error);
  console.error(`soak: ${failure.code}: ${failure.message}`);
  if (failure.code === "internal" && failure.cause instanceof Error) console.error(failure.cause.stack);
  process.exitCode = 1;
});
