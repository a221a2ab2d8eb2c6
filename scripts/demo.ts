// npm run demo: two VMs and a DPDK pod on two nodes on this machine, with live migration; a table and a picture at the end.
import { programOf, runProgram } from "../src/command-line/program.ts";
import { runDemo } from "../test/demo/demo.ts";
import { type DemoFigures, figuresTable } from "../test/demo/figures.ts";
import { processesOfRun } from "../test/demo/own-processes.ts";
import { countUnlistedHugepages } from "../test/machine/hugepages.ts";
import { openLabRun } from "../test/machine/lab-run.ts";
import { requireMachine } from "../test/machine/packages.ts";
import { endOnSignals } from "../test/machine/signals.ts";
import { Narrator } from "./narrator.mjs";

async function main(values: { readonly json?: true }): Promise<void> {
  await requireMachine();
  const narrator = new Narrator(process.stdout, "dist/durations/demo.json");
  const run = await openLabRun({ narrator });
  const pagesBefore = await countUnlistedHugepages(2048);
  const forget = endOnSignals(run);
  let figures: Awaited<ReturnType<typeof runDemo>> | undefined;
  try {
    figures = await runDemo(run, narrator);
  } finally {
    await narrator.step("clean-up", "everything ends", async () => {
      await run.close();
      return { say: "processes ended, mounts and namespaces gone, hugepages given back" };
    });
    forget();
  }
  const all: DemoFigures = {
    ...figures,
    left: {
      ...figures.left,
      processes: processesOfRun(run.name).length,
      hugepages: Math.max(0, (await countUnlistedHugepages(2048)) - pagesBefore),
    },
    steps: narrator.steps,
  };
  narrator.remember();
  console.log(`\n${figuresTable(all)}\n\nThe picture of it, for a browser: ${all.picture}`);
  if (values.json) console.log(JSON.stringify(all));
  if (Object.values(all.left).some((count) => count > 0)) process.exitCode = 1;
}

const program = programOf(
  "npm run demo --",
  `Two VMs and a DPDK pod on two nodes of this machine talk through OVS-DPDK, one VM migrates live.
Needs Debian 12, root, 4 GiB of free memory; installs the Debian packages that are missing.`,
)
  .option("--json", "print the figures as one JSON object in the last line")
  .action(main);
await runProgram(program);
