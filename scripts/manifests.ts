// npm run manifests: puts the version of package.json into the chart and into deploy/kubevirt, and writes what is
// rendered from the chart.
import { programOf, runProgram } from "../src/command-line/program.ts";
import { renderedFiles, stampedFiles } from "./build/render-manifests.ts";
import { writeGenerated } from "./build/write-generated.ts";
import { Narrator } from "./narrator.mjs";

const program = programOf("npm run manifests --", "Writes the manifests that are rendered from the chart.")
  .option("--check", "only say whether they are up to date")
  .action(async ({ check }: { readonly check?: true }) => {
    const options = { isCheck: check === true, cure: "npm run manifests" };
    await new Narrator(process.stderr).step("manifests", "version, and Helm's rendering", async () => {
      for (const make of [stampedFiles, renderedFiles]) await writeGenerated(await make(), options);
    });
  });
await runProgram(program);
