import manifest from "../../../package.json" with { type: "json" };
import { loadConfig } from "../../config/load.ts";
import { runSetup } from "../run-setup.ts";
import { mountRoot } from "./mount-root.ts";

const usage = `Mounts the root of all allocations; run as root, once before the daemon starts

  --config FILE       the daemon's configuration (default /etc/kube-vhostuser/config.yaml)
  --version           print the release
`;

const options = {
  config: { type: "string", default: "/etc/kube-vhostuser/config.yaml" },
} as const;

await runSetup({ usage, options, version: manifest.version }, async ({ config: file }) => {
  const { root, rootFileSystem } = await loadConfig(file, process.env["NODE_NAME"]);
  return `${root} is ${await mountRoot({ root, sizeMiB: rootFileSystem.sizeMiB })}`;
});
