import { hostname } from "node:os";
import { runInNewContext } from "node:vm";
import manifest from "../../package.json" with { type: "json" };
import { createLogger } from "../logging/logger.ts";
import { readEnvironment } from "./environment.ts";
import { startSidecar } from "./sidecar.ts";

// KubeVirt starts it without arguments, and then it does without the parser.
if (process.argv.length > 2) {
  const { programOf, runProgram } = await import("../command-line/program.ts");
  const program = programOf(
    "kube-vhostuser sidecar",
    "KubeVirt's hook sidecar: serves in a virt-launcher pod. Its environment configures it: docs/sidecar-internals.md.",
  )
    .option("--version [hooks]", "print the release; with a version of KubeVirt's hooks it has no effect")
    .action(({ version }: { readonly version?: string | true }) => {
      if (version !== true) return;
      process.stdout.write(`kube-vhostuser ${manifest.version}\n`);
      process.exit();
    });
  await runProgram(program);
}
const { env } = process;
const collectGarbage = () => runInNewContext("gc({ type: 'major', flavor: 'last-resort' })");
const logger = createLogger({ level: env["VHOSTUSER_LOG_LEVEL"] || "info", program: "sidecar" });

// Before anything else: a first process of a container without a handler doesn't even get SIGTERM.
const ending = new AbortController();
for (const signal of ["SIGTERM", "SIGINT"] as const) {
  process.once(signal, () => ending.abort(new Error(`it got ${signal}`)));
}
const options = { ...(await readEnvironment(env, hostname())), logger, collectGarbage };
const sidecar = await startSidecar(options, ending.signal);

// Set here because on the command line each of them makes Node compile its own modules instead of loading them from
// its code cache. No optimized code: it takes 10 MB, and a VM's three calls end before it would pay.
const { setFlagsFromString } = process.getBuiltinModule("node:v8");
for (const flag of ["--no-opt", "--no-maglev", "--expose-gc"]) setFlagsFromString(flag);
await sidecar.stopped;
