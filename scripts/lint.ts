// npm run lint: format, lint and types; npm run format changes files so that they pass.
import { programOf, runProgram } from "../src/command-line/program.ts";
import { lintSteps } from "./lint-steps.ts";
import { Narrator } from "./narrator.mjs";
import { runTool } from "./run-tool.ts";

async function main({ write = false }: { readonly write?: boolean }): Promise<void> {
  const narrator = new Narrator(process.stderr, `dist/durations/lint${write ? "-write" : ""}.json`);
  for (const step of lintSteps(write)) {
    const { code } = await runTool(narrator, step);
    if (code !== 0) process.exit(code);
  }
  narrator.remember();
}

const program = programOf("npm run lint --", "Checks format, lint, types and the links of documents.")
  .option("--write", "format instead, and repair what can be repaired (npm run format)")
  .action(main);
await runProgram(program);
