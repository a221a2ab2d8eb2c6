// npm run demo: two VMs and a DPDK pod on two nodes on this machine, with live migration, and a table at the end.
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { toFailure } from "../src/failure/failure.ts";
import { runDemo } from "../test/demo/demo.ts";
import { type DemoFigures, figuresTable } from "../test/demo/figures.ts";
import { Narrator } from "../test/demo/narrator.ts";
import { processesOfRun } from "../test/demo/own-processes.ts";
import { openLabRun } from "../test/machine/lab-run.ts";
import { requireMachine } from "../test/machine/packages.ts";
import { endOnSignals } from "../test/machine/signals.ts";

const USAGE = `npm run demo [-- --json]

Two VMs and a DPDK pod on two nodes of this machine talk through OVS-DPDK, one VM migrates live.
Needs Debian 12, root, 4 GiB of free memory; installs the Debian packages that are missing.

  --json   print the figures as one JSON object in the last line
`;

const hugepages = () => Number(readFileSync("/proc/sys/vm/nr_hugepages", "utf8"));

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { json: { type: "boolean" }, help: { type: "boolean" } } });
  if (values.help) {
    process.stdout.write(USAGE);
    return;
  }
  await requireMachine();
  const narrator = new Narrator((line) => console.log(line));
  const run = await openLabRun({ progress: (line) => narrator.say(line) });
  const pagesBefore = hugepages();
  const forget = endOnSignals(run);
  let figures: Awaited<ReturnType<typeof runDemo>> | undefined;
  try {
    figures = await runDemo(run, narrator);
  } finally {
    await narrator.step("clean-up", async () => {
      await run.close();
      return { say: "processes ended, mounts and namespaces gone, hugepages given back", result: undefined };
    });
    forget();
  }
  const all: DemoFigures = {
    ...figures,
    left: {
      ...figures.left,
      processes: processesOfRun(run.name).length,
      hugepages: Math.max(0, hugepages() - pagesBefore),
    },
    steps: narrator.steps,
  };
  console.log(`\n${figuresTable(all)}`);
  if (values.json) console.log(JSON.stringify(all));
  if (Object.values(all.left).some((count) => count > 0)) process.exitCode = 1;
}

main().catch((error: unknown) => {
  const failure = toFailure(error);
  console.error(`demo: ${failure.code}: ${failure.message}`);
  if (failure.code === "internal" && failure.cause instanceof Error) console.error(failure.cause.stack);
  process.exitCode = 1;
});
