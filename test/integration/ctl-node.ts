import { execFile } from "node:child_process";
import { release } from "node:os";
import { join, resolve } from "node:path";
import { runCtl } from "../../src/ctl/run-ctl.ts";
import { openScreen } from "../../src/ctl/terminal.ts";
import type { ClusterNode } from "../cluster/cluster-node.ts";

/** vhostuserctl as it is built for images. */
const PROGRAM = join(resolve(import.meta.dirname, "../.."), "dist/ctl/main.mjs");

/** What a run of vhostuserctl came to. */
export interface CtlRun {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command that asks the daemon, without a process of its own: most of such a run would be the start of Node. */
export async function runCtlOn(node: ClusterNode, ...args: readonly string[]): Promise<CtlRun> {
  let [stdout, stderr] = ["", ""];
  const code = await runCtl({
    args: [...args, "--config", node.configFile],
    screen: openScreen({ write: (text) => (stdout += text) }, {}),
    complain: (text) => {
      stderr += text;
    },
    node: node.name,
    version: "0.0.0",
    host: { proc: "/proc", sys: "/sys", kernel: release(), uid: 0, run: () => Promise.reject(NO_PROGRAMS) },
  });
  return { code, stdout, stderr };
}
const NO_PROGRAMS = new Error("doctor is tried as a program: runCtlProgramOn");

/** Runs the program on a node, as root there and without a terminal. */
export function runCtlProgramOn(node: ClusterNode, ...args: readonly string[]): Promise<CtlRun> {
  return runCommand([process.execPath, PROGRAM, ...args, "--config", node.configFile]);
}

/** The same with no more than the daemon's container has, as kubectl exec gives. */
export function runCtlInContainer(node: ClusterNode, ...args: readonly string[]): Promise<CtlRun> {
  const capabilities = "-all,+chown,+dac_override,+fowner,+fsetid";
  const prefix = ["setpriv", `--bounding-set=${capabilities}`, "--inh-caps=-all", "--no-new-privs", "--"];
  return runCommand([...prefix, process.execPath, PROGRAM, ...args, "--config", node.configFile]);
}

function runCommand([command = "", ...args]: readonly string[]): Promise<CtlRun> {
  return new Promise((done) => {
    execFile(command, args, { timeout: 60_000, maxBuffer: 16 * 1024 * 1024 }, (error, stdout, stderr) =>
      done({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr }),
    );
  });
}

/** The JSON that a command prints. */
export async function jsonOf<Value>(
  node: ClusterNode,
  command: string,
  args: readonly string[] = [],
  execute = runCtlOn,
): Promise<Value> {
  const { stdout, stderr } = await execute(node, command, ...args, "--json");
  if (stdout === "") throw new Error(stderr);
  return JSON.parse(stdout) as Value;
}
