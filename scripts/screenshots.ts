// npm run screenshots: the pictures of docs/status-page.md, drawn from an example in Debian's Chromium.
import { stat } from "node:fs/promises";
import { toFailure } from "../src/failure/failure.ts";
import { takeScreenshots } from "../test/browser/screenshots.ts";
import { buildPage } from "./build/build-page.ts";

async function main(): Promise<void> {
  await buildPage();
  for (const file of await takeScreenshots("docs/images")) {
    console.log(`${file}  ${((await stat(file)).size / 1024).toFixed(0)} KiB`);
  }
}

main().catch((error: unknown) => {
  const failure = toFailure(error);
  console.error(`screenshots: ${failure.code}: ${failure.message}`);
  process.exitCode = 1;
});
