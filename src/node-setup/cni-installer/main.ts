import { join } from "node:path";
import { fileURLToPath } from "node:url";
import manifest from "../../../package.json" with { type: "json" };
import { programOf, runProgram } from "../../command-line/program.ts";
import { installExecutable, uninstallExecutable } from "./install.ts";

/** The executables beside this program, as dist/ has them. */
const OWN_EXECUTABLES = fileURLToPath(new URL("../cni", import.meta.url));

interface Options {
  readonly target: string;
  readonly source: string;
  readonly ipam?: true;
  readonly uninstall?: true;
}

const program = programOf(
  "kube-vhostuser",
  "Puts the CNI executables of kube-vhostuser into the node's directory; run as root, once before the daemon starts.",
  manifest.version,
)
  .option("--target <directory>", "the node's directory of CNI executables", "/host/opt/cni/bin")
  .option("--source <directory>", "where the executables are", OWN_EXECUTABLES)
  .option("--ipam", "also put kube-vhostuser-ipam there, the executable of the IPAM agent")
  .option("--uninstall", "remove both instead; what is not ours stays")
  .action(async ({ target: directory, source, ipam, uninstall }: Options) => {
    const names =
      uninstall || ipam
        ? (["kube-vhostuser", "kube-vhostuser-ipam"] as const)
        : (["kube-vhostuser"] as const);
    for (const name of names) {
      const done = uninstall
        ? uninstallExecutable(directory, name)
        : installExecutable({ name, source: join(source, name), directory });
      process.stdout.write(`kube-vhostuser: ${await done}\n`);
    }
  });
await runProgram(program);
