// npm run manifests: puts the version of package.json into the chart and into deploy/kubevirt, and writes what is
// rendered from the chart. With --check it only says whether they are up to date.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { renderedFiles, stampedFiles } from "./build/render-manifests.ts";

const TOP = resolve(import.meta.dirname, "..");

for (const make of [stampedFiles, renderedFiles]) {
  for (const [file, text] of Object.entries(await make())) {
    const path = join(TOP, file);
    if (!process.argv.includes("--check")) {
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, text);
    } else if ((await readFile(path, "utf8").catch(() => "")) !== text) {
      console.error(`${file} is not what it is made of; run npm run manifests`);
      process.exitCode = 1;
    }
  }
}
