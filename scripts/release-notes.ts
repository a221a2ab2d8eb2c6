// npm run release-notes -- v0.1.0: what CHANGELOG.md says of a release; fails where tag, version and changelog differ.
import { readFile } from "node:fs/promises";
import manifest from "../package.json" with { type: "json" };
import { toFailure } from "../src/failure/failure.ts";
import { releaseNotes } from "./release/changelog.ts";

try {
  const [tag = ""] = process.argv.slice(2);
  process.stdout.write(`${releaseNotes(tag, manifest.version, await readFile("CHANGELOG.md", "utf8"))}\n`);
} catch (error) {
  const failure = toFailure(error);
  console.error(`release-notes: ${failure.code}: ${failure.message}`);
  process.exitCode = 1;
}
