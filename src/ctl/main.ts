import { execFile } from "node:child_process";
import { hostname, release } from "node:os";
import { promisify } from "node:util";
import manifest from "../../package.json" with { type: "json" };
import { runCtl } from "./run-ctl.ts";
import { openScreen } from "./terminal.ts";

const SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin";

// A reader that closes early, such as head, is not an error.
process.stdout.on("error", () => process.exit());
const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT_HTTPS: port = "443" } = process.env;
process.exitCode = await runCtl({
  args: process.argv.slice(2),
  screen: openScreen(process.stdout, process.env),
  complain: (text) => void process.stderr.write(text),
  node: process.env["NODE_NAME"] ?? hostname(),
  version: manifest.version,
  host: {
    proc: "/proc",
    sys: "/sys",
    kernel: release(),
    apiServer: host === undefined ? undefined : { host, port },
    uid: process.geteuid?.() ?? 0,
    run: async (command, args) =>
      (
        await promisify(execFile)(command, [...args], {
          timeout: 5_000,
          env: { PATH: SYSTEM_PATH, LC_ALL: "C" },
        })
      ).stdout,
  },
});
