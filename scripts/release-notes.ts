// npm run release-notes -- v0.1.0: what CHANGELOG.md says of a release; fails where tag, version and changelog differ.
import { readFile } from "node:fs/promises";
import manifest from "../package.json" with { type: "json" };
import { programOf, runProgram } from "../src/command-line/program.ts";
import { releaseNotes } from "./release/changelog.ts";

const program = programOf("npm run release-notes --", "Prints what CHANGELOG.md says of a release.")
  .argument("<tag>", "for example v0.1.0")
  .action(async (tag: string) => {
    process.stdout.write(`${releaseNotes(tag, manifest.version, await readFile("CHANGELOG.md", "utf8"))}\n`);
  });
await runProgram(program);
