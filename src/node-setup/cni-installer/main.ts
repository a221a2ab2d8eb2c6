import { fileURLToPath } from "node:url";
import manifest from "../../../package.json" with { type: "json" };
import { programOf, runProgram } from "../../command-line/program.ts";
import { installExecutable, uninstallExecutable } from "./install.ts";

/** Beside this program, as dist/ has it. */
const OWN_EXECUTABLE = fileURLToPath(new URL("../cni/kube-vhostuser", import.meta.url));

interface Options {
  readonly target: string;
  readonly source: string;
  readonly uninstall?: true;
}

const program = programOf(
  "kube-vhostuser",
  "Puts the CNI executable of kube-vhostuser into the node's directory; run as root, once before the daemon starts.",
  manifest.version,
)
  .option("--target <directory>", "the node's directory of CNI executables", "/host/opt/cni/bin")
  .option("--source <file>", "the executable", OWN_EXECUTABLE)
  .option("--uninstall", "remove it instead; what is not ours stays")
  .action(async ({ target: directory, source, uninstall }: Options) => {
    const done = uninstall ? uninstallExecutable(directory) : installExecutable({ source, directory });
    process.stdout.write(`kube-vhostuser: ${await done}\n`);
  });
await runProgram(program);
