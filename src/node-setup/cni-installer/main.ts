import { fileURLToPath } from "node:url";
import manifest from "../../../package.json" with { type: "json" };
import { runSetup } from "../run-setup.ts";
import { installExecutable, uninstallExecutable } from "./install.ts";

const usage = `Puts the CNI executable of kube-vhostuser into the node's directory; run as root, once before the daemon starts

  --target DIR        the node's directory of CNI executables (default /host/opt/cni/bin)
  --source FILE       the executable (default: the image's own)
  --uninstall         remove it instead; what is not ours stays
  --version           print the release
`;

/** Beside this program, as dist/ has it. */
const OWN_EXECUTABLE = fileURLToPath(new URL("../cni/kube-vhostuser", import.meta.url));

const options = {
  target: { type: "string", default: "/host/opt/cni/bin" },
  source: { type: "string", default: OWN_EXECUTABLE },
  uninstall: { type: "boolean", default: false },
} as const;

await runSetup({ usage, options, version: manifest.version }, ({ target: directory, source, uninstall }) =>
  uninstall ? uninstallExecutable(directory) : installExecutable({ source, directory }),
);
