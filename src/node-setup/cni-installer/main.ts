import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Option } from "commander";
import manifest from "../../../package.json" with { type: "json" };
import { programOf, runProgram } from "../../command-line/program.ts";
import type { Executable } from "./executable.ts";
import { installExecutable, uninstallExecutable } from "./install.ts";

/** The executables beside this program, as dist/ has them. */
const OWN_EXECUTABLES = fileURLToPath(new URL("../cni", import.meta.url));

interface Options {
  readonly target: string;
  readonly source: string;
  readonly executable: Executable;
  readonly uninstall?: true;
}

const program = programOf(
  "kube-vhostuser",
  "Puts a CNI executable of kube-vhostuser into the node's directory; run as root, once before the daemon or the agent starts.",
  manifest.version,
)
  .option("--target <directory>", "the node's directory of CNI executables", "/host/opt/cni/bin")
  .option("--source <directory>", "where the executables are", OWN_EXECUTABLES)
  .addOption(
    new Option("--executable <name>", "the executable of the daemon or of the IPAM agent")
      .choices(["kube-vhostuser", "kube-vhostuser-ipam"])
      .default("kube-vhostuser"),
  )
  .option("--uninstall", "remove it instead; what is not ours stays")
  .action(async ({ target: directory, source, executable: name, uninstall }: Options) => {
    const done = uninstall
      ? uninstallExecutable(directory, name)
      : installExecutable({ name, source: join(source, name), directory });
    process.stdout.write(`kube-vhostuser: ${await done}\n`);
  });
await runProgram(program);
