import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import manifest from "../../../package.json" with { type: "json" };
import { toFailure } from "../../failure/failure.ts";
import { installExecutable, uninstallExecutable } from "./install.ts";

const USAGE = `Puts the CNI executable of kube-vhostuser into the node's directory; run as root, once before the daemon starts

  --target DIR        the node's directory of CNI executables (default /host/opt/cni/bin)
  --source FILE       the executable (default: the image's own)
  --uninstall         take it away instead; what is not ours stays
  --version           print the release
`;

/** Beside this program, as dist/ has it. */
const OWN_EXECUTABLE = fileURLToPath(new URL("../cni/kube-vhostuser", import.meta.url));

const OPTIONS = {
  target: { type: "string", default: "/host/opt/cni/bin" },
  source: { type: "string", default: OWN_EXECUTABLE },
  uninstall: { type: "boolean", default: false },
  version: { type: "boolean", default: false },
  help: { type: "boolean", default: false },
} as const;

/** Reads the command line, installs, says what it did. */
async function main(): Promise<void> {
  const values = readArguments();
  if (values === undefined) return;
  if (values.help) return void process.stdout.write(USAGE);
  if (values.version) return void process.stdout.write(`kube-vhostuser ${manifest.version}\n`);
  const done = values.uninstall
    ? await uninstallExecutable(values.target)
    : await installExecutable({ source: values.source, directory: values.target });
  process.stdout.write(`kube-vhostuser: ${done}\n`);
}

function readArguments() {
  try {
    return parseArgs({ options: OPTIONS }).values;
  } catch (error) {
    process.stderr.write(`kube-vhostuser: ${toFailure(error).message}\n${USAGE}`);
    process.exitCode = 2;
    return undefined;
  }
}

main().catch((error: unknown) => {
  const failure = toFailure(error);
  process.stderr.write(`kube-vhostuser: ${failure.code}: ${failure.message}\n`);
  process.exitCode = 1;
});
