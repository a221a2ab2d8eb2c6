// @ts-check
// Front door of every npm script. Runs on the Node that the machine has (18 or later), brings the packages of
// package-lock.json and with them the pinned Node 24, and runs scripts/<task>.ts on that.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Narrator } from "./narrator.mjs";

const top = dirname(dirname(fileURLToPath(import.meta.url)));
const nodePackage = `node-linux-${process.arch}`;
const pinnedNode = join(top, "node_modules", nodePackage, "bin/node");
const stamp = join(top, "node_modules/.installed-lock");
const lockText = readFileSync(join(top, "package-lock.json"), "utf8");
const lock = createHash("sha256").update(lockText).digest("hex");

const [task, ...args] = process.argv.slice(2);
if (task === undefined || !existsSync(join(top, `scripts/${task}.ts`))) {
  console.error(`bootstrap: no task ${JSON.stringify(task)}; see the scripts in package.json`);
  process.exit(2);
}

if (!existsSync(pinnedNode) || !existsSync(stamp) || readFileSync(stamp, "utf8") !== lock) {
  answerUsage(readFileSync(join(top, `scripts/${task}.ts`), "utf8"));
  await installPackages();
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
for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"]))
  process.on(signal, () => child.kill(signal));
child.on("exit", (code, signal) => process.exit(code ?? (signal === "SIGINT" ? 130 : 143)));

/**
 * Answers `--help` and a wrong option as the task itself does once its packages are there, and ends with that.
 * @param {string} source of the task
 */
function answerUsage(source) {
  const options = [...source.matchAll(/\.option\(\s*"([^"]+)"/g)].map(([, flags = ""]) => flags);
  const known = ["-h", "--help", ...options.flatMap((flags) => flags.match(/(?<![\w-])--?[\w-]+/g) ?? [])];
  const own = args.includes("--") ? args.slice(0, args.indexOf("--")) : args;
  const wrong = own.find((arg) => /^-./.test(arg) && !known.includes(arg.replace(/^(--[^=]+|-\w).*/, "$1")));
  if (wrong === undefined && !own.includes("--help") && !own.includes("-h")) return;
  const [head = ""] = source.split(/^(?!\/\/)/m);
  const usage = `Usage: ${head.replace(/^\/\/ /gm, "")}Options: ${[...options, "-h, --help"].join("; ")}`;
  if (wrong === undefined) console.log(`${usage}. npm ci, then --help again, explains them.`);
  else console.error(`error: unknown option '${wrong}'\n\n${usage}`);
  process.exit(wrong === undefined ? 0 : 2);
}

async function installPackages() {
  const narrator = new Narrator(process.stderr, join(top, "dist/durations/packages.json"));
  /** @type {Record<string, { os?: string[], cpu?: string[], libc?: string[] }>} */
  const packages = JSON.parse(lockText).packages;
  const wanted = Object.entries(packages).flatMap(([path, { os, cpu, libc }]) => {
    const isForUs =
      (os ?? ["linux"]).includes("linux") &&
      (cpu ?? [process.arch]).includes(process.arch) &&
      (libc ?? ["glibc"]).includes("glibc");
    return path === "" || !isForUs ? [] : [join(top, path, "package.json")];
  });
  const count = () =>
    narrator.show(`${wanted.filter((file) => existsSync(file)).length} of ${wanted.length}`);
  await narrator.step("npm ci", "npm packages, with Node 24", async () => {
    const options = ["--no-audit", "--no-fund", "--no-progress", "--loglevel=error"];
    const hook = `--require ${JSON.stringify(join(top, "scripts/as-pinned-node.cjs"))}`;
    const npm = spawn("npm", ["ci", ...options], {
      cwd: top,
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, NODE_OPTIONS: `${process.env["NODE_OPTIONS"] ?? ""} ${hook}` },
    });
    for (const stream of [npm.stdout, npm.stderr])
      stream.setEncoding("utf8").on("data", (text) => narrator.pass(text));
    const counting = setInterval(count, 500);
    const [code] = await once(npm, "close");
    clearInterval(counting);
    if (code === 0) return;
    narrator.say("bootstrap: npm ci failed; its message is above. It needs the npm registry.");
    process.exit(code ?? 1);
  });
  narrator.remember();
}
