// npm run build: what images ship. Bundles of the daemon and the sidecar, and the static CNI executable.
import { programOf, runProgram } from "../src/command-line/program.ts";
import { buildAll } from "./build/build-all.ts";
import { Narrator } from "./narrator.mjs";

async function main(): Promise<void> {
  const files = await new Narrator(process.stderr).step("build", "programs and CNI executable", async () => ({
    result: await buildAll(),
  }));
  for (const { file, bytes } of files) console.log(`${file}  ${(bytes / 1024).toFixed(0)} KiB`);
}

await runProgram(
  programOf(
    "npm run build --",
    "Builds what images ship, in dist: all programs and the CNI executable.",
  ).action(main),
);
