import { parseArgs } from "node:util";
import manifest from "../../../package.json" with { type: "json" };
import { loadConfig } from "../../config/load.ts";
import { toFailure } from "../../failure/failure.ts";
import { mountRoot } from "./mount-root.ts";

const USAGE = `Mounts the root of all allocations; run as root, once before the daemon starts

  --config FILE       the daemon's configuration (default /etc/kube-vhostuser/config.yaml)
  --version           print the release
`;

/** Reads the command line, mounts, says what it did. */
async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      config: { type: "string", default: "/etc/kube-vhostuser/config.yaml" },
      version: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return;
  }
  if (values.version) {
    process.stdout.write(`kube-vhostuser ${manifest.version}\n`);
    return;
  }
  const config = await loadConfig(values.config, process.env["NODE_NAME"]);
  const done = await mountRoot({ root: config.root, bounds: config.rootFileSystem });
  process.stdout.write(`kube-vhostuser: ${config.root} is ${done}\n`);
}

main().catch((error: unknown) => {
  const failure = toFailure(error);
  process.stderr.write(`kube-vhostuser: ${failure.code}: ${failure.message}\n`);
  process.exitCode = 1;
});
