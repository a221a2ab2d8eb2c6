import { execFile } from "node:child_process";
import { join, resolve } from "node:path";
import type { ClusterNode } from "../cluster/cluster-node.ts";

/** vhostuserctl as it is built for images. */
const PROGRAM = join(resolve(import.meta.dirname, "../.."), "dist/ctl/main.mjs");

/** What a run of vhostuserctl came to. */
export interface CtlRun {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs vhostuserctl on a node, as root there and without a terminal. */
export function runCtlOn(node: ClusterNode, ...args: readonly string[]): Promise<CtlRun> {
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
export async function jsonOf<Value>(node: ClusterNode, ...args: readonly string[]): Promise<Value> {
  const { stdout, stderr } = await runCtlOn(node, ...args, "--json");
  if (stdout === "") throw new Error(stderr);
  return JSON.parse(stdout) as Value;
}
