// npm run screenshots: the pictures of docs/status-page.md, drawn from an example in Debian's Chromium.
import { stat } from "node:fs/promises";
import { programOf, runProgram } from "../src/command-line/program.ts";
import { takeScreenshots } from "../test/browser/screenshots.ts";
import { buildPage } from "./build/build-page.ts";
import { Narrator } from "./narrator.mjs";

async function main(): Promise<void> {
  const narrator = new Narrator(process.stderr);
  const files = await narrator.step("draw", "pictures of the status page", async () => {
    await buildPage();
    return { result: await takeScreenshots("docs/images") };
  });
  for (const file of files) {
    console.log(`${file}  ${((await stat(file)).size / 1024).toFixed(0)} KiB`);
  }
}

await runProgram(
  programOf(
    "npm run screenshots --",
    "Draws the pictures of docs/status-page.md in Debian's Chromium.",
  ).action(main),
);
