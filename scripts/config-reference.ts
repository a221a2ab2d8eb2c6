// Writes what is generated from the schema of the configuration: docs/configuration.md, and with the chart's values the
// chart's schema and README. With --check it only says whether they are up to date.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { chartReadme } from "./build/chart-readme.ts";
import { chartValuesJsonSchema } from "./build/chart-values-schema.ts";
import { configurationReference } from "./build/configuration-reference.ts";

const PAGES = {
  "docs/configuration.md": configurationReference(),
  "deploy/chart/kube-vhostuser/values.schema.json": chartValuesJsonSchema(),
  "deploy/chart/kube-vhostuser/README.md": chartReadme(),
};
for (const [file, text] of Object.entries(PAGES)) {
  if (!process.argv.includes("--check")) {
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, text);
  } else if ((await readFile(file, "utf8").catch(() => "")) !== text) {
    console.error(`${file} is not what its source says; run npm run docs`);
    process.exitCode = 1;
  }
}
