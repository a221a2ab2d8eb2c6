import { chmod, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** A call that a fake plugin got. */
export interface FakeCall {
  readonly plugin: string;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: Readonly<Record<string, unknown>>;
}

/** What a fake plugin does, as the text of a function that gets verb, environment and stdin. */
export interface FakePluginOptions {
  readonly directory: string;
  /** The configuration's `type`. */
  readonly type: string;
  /** Every call is added to this file. */
  readonly log: string;
  /** JavaScript that may set `out` (stdout) and `exit`; `verb`, `env`, `stdin` and `fs` are there. */
  readonly behave?: string;
}

/** Writes the executable of a CNI plugin that makes one interface in the sandbox and nothing in the world. */
export async function writeFakePlugin(options: FakePluginOptions): Promise<void> {
  const path = join(options.directory, options.type);
  await writeFile(
    path,
    `#!${process.execPath}
const fs = require("node:fs");
const env = process.env, verb = env.CNI_COMMAND;
const stdin = JSON.parse(fs.readFileSync(0, "utf8"));
fs.appendFileSync(${JSON.stringify(options.log)}, JSON.stringify({ plugin: ${JSON.stringify(options.type)}, env, stdin }) + "\\n");
let exit = 0, out = "";
if (verb === "VERSION") out = { cniVersion: stdin.cniVersion, supportedVersions: ["0.4.0", "1.0.0", "1.1.0"] };
if (verb === "ADD") out = {
  cniVersion: stdin.cniVersion,
  interfaces: [{ name: env.CNI_IFNAME, mac: "02:00:00:00:00:01", sandbox: env.CNI_NETNS }],
};
${options.behave ?? ""}
process.stdout.write(typeof out === "string" ? out : JSON.stringify(out));
process.exitCode = exit;
`,
  );
  await chmod(path, 0o755);
}

/** All calls so far. */
export async function readCalls(log: string): Promise<readonly FakeCall[]> {
  const text = await readFile(log, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as FakeCall);
}
