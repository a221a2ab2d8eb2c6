import manifest from "../../../package.json" with { type: "json" };
import { programOf, runProgram } from "../../command-line/program.ts";
import { loadConfig } from "../../config/load.ts";
import { mountRoot } from "./mount-root.ts";

const program = programOf(
  "kube-vhostuser",
  "Mounts the root of all allocations; run as root, once before the daemon starts.",
  manifest.version,
)
  .option("--config <file>", "the daemon's configuration", "/etc/kube-vhostuser/config.yaml")
  .action(async ({ config: file }: { readonly config: string }) => {
    const { root, rootFileSystem } = await loadConfig(file, process.env["NODE_NAME"]);
    const { sizeMiB } = rootFileSystem;
    process.stdout.write(`kube-vhostuser: ${root} is ${await mountRoot({ root, sizeMiB })}\n`);
  });
await runProgram(program);
