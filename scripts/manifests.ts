// npm run manifests: writes what is rendered from the chart. With --check it only says whether it is up to date.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { renderedFiles } from "./build/render-manifests.ts";

const TOP = resolve(import.meta.dirname, "..");

for (const [file, text] of Object.entries(await renderedFiles())) {
  const path = join(TOP, file);
  if (!process.argv.includes("--check")) {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  } else if ((await readFile(path, "utf8").catch(() => "")) !== text) {
    console.error(`${file} is not what the chart makes; run npm run manifests`);
    process.exitCode = 1;
  }
}
