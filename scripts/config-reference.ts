// Writes docs/configuration.md from the schema; with --check it only says whether the file is up to date.
import { readFile, writeFile } from "node:fs/promises";
import { configurationReference } from "./build/configuration-reference.ts";

const FILE = "docs/configuration.md";
const text = configurationReference();
if (process.argv.includes("--check")) {
  if ((await readFile(FILE, "utf8").catch(() => "")) !== text) {
    console.error(`${FILE} is not what the schema says; run npm run docs`);
    process.exitCode = 1;
  }
} else {
  await writeFile(FILE, text);
}
