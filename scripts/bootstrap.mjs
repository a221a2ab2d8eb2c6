// Front door of every npm script. Runs on the Node that the machine has (18 or later), brings the packages of
// package-lock.json and with them the pinned Node 24, and runs scripts/<task>.ts on that.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const top = dirname(dirname(fileURLToPath(import.meta.url)));
const nodePackage = `node-linux-${process.arch}`;
const pinnedNode = join(top, "node_modules", nodePackage, "bin/node");
const stamp = join(top, "node_modules/.installed-lock");
const lock = createHash("sha256")
  .update(readFileSync(join(top, "package-lock.json")))
  .digest("hex");

const [task, ...args] = process.argv.slice(2);
if (task === undefined || !existsSync(join(top, `scripts/${task}.ts`))) {
  console.error(`bootstrap: no task ${JSON.stringify(task)}; see the scripts in package.json`);
  process.exit(2);
}

if (!existsSync(pinnedNode) || !existsSync(stamp) || readFileSync(stamp, "utf8") !== lock) {
  console.error("· npm packages (and Node 24): npm ci");
  const npm = spawnSync("npm", ["ci", "--no-audit", "--no-fund", "--loglevel=error"], {
    cwd: top,
    stdio: ["ignore", 2, 2],
  });
  if (npm.status !== 0) {
    console.error("bootstrap: npm ci failed; its message stands above. It needs the npm registry.");
    process.exit(npm.status ?? 1);
  }
  if (!existsSync(pinnedNode)) {
    console.error(`bootstrap: npm has no ${nodePackage}; x86-64 and arm64 Linux are supported`);
    process.exit(1);
  }
  // npm 10 drops this link again when it passes over the other processor's package, which has the same command.
  const link = join(top, "node_modules/.bin/node");
  if (!existsSync(link)) symlinkSync(`../${nodePackage}/bin/node`, link);
  writeFileSync(stamp, lock);
}

const child = spawn(pinnedNode, [join(top, `scripts/${task}.ts`), ...args], { cwd: top, stdio: "inherit" });
// The task cleans up when it is interrupted; wait for it instead of dying first. A terminal's Ctrl-C reaches
// it already, a signal to this process alone does not.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("exit", (code, signal) => process.exit(code ?? (signal === "SIGINT" ? 130 : 143)));
