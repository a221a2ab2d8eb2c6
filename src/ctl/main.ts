import { hostname } from "node:os";
import manifest from "../../package.json" with { type: "json" };
import { runCtl } from "./run-ctl.ts";
import { openScreen } from "./terminal/screen.ts";

const stop = new AbortController();
for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => stop.abort(signal));
// Whoever reads only the first lines (head, less) has no use for an error.
process.stdout.on("error", () => process.exit());
process.exitCode = await runCtl({
  args: process.argv.slice(2),
  screen: openScreen(process.stdout, process.env),
  complain: (text) => void process.stderr.write(text),
  node: process.env["NODE_NAME"] ?? hostname(),
  version: manifest.version,
  signal: stop.signal,
});
