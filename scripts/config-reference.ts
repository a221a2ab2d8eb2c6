// npm run docs: writes what is generated from the schema of the configuration: docs/configuration.md, and with the chart's
// values the chart's schema and README.
import { programOf, runProgram } from "../src/command-line/program.ts";
import { chartReadme } from "./build/chart-readme.ts";
import { chartValuesJsonSchema } from "./build/chart-values-schema.ts";
import { portParametersSchema } from "./build/claim-parameters-schema.ts";
import { configurationReference } from "./build/configuration-reference.ts";
import { writeGenerated } from "./build/write-generated.ts";

const program = programOf(
  "npm run docs --",
  "Writes the references that are generated from the configuration's schema.",
)
  .option("--check", "only say whether they are up to date")
  .action(({ check }: { readonly check?: true }) =>
    writeGenerated(
      {
        "docs/configuration.md": configurationReference(),
        "docs/vhost-user-port.schema.json": portParametersSchema(),
        "deploy/chart/kube-vhostuser/values.schema.json": chartValuesJsonSchema(),
        "deploy/chart/kube-vhostuser/README.md": chartReadme(),
      },
      { isCheck: check === true, cure: "npm run docs" },
    ),
  );
await runProgram(program);
