// Writes the pages that are made from sources: docs/configuration.md from the schema of the configuration,
// docs/man/vhostuserctl.1 from the program's commands, the chart's schema and README from that schema and its values.
// With --check it only says whether they are up to date.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import manifest from "../package.json" with { type: "json" };
import { chartReadme } from "./build/chart-readme.ts";
import { chartValuesJsonSchema } from "./build/chart-values-schema.ts";
import { configurationReference } from "./build/configuration-reference.ts";
import { manPage } from "./build/man-page.ts";

const PAGES = {
  "docs/configuration.md": configurationReference(),
  "docs/man/vhostuserctl.1": manPage(manifest.version),
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
