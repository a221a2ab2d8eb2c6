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

/** Runs vhostuserctl on a node, as kubectl exec does: no terminal. */
export function runCtlOn(node: ClusterNode, ...args: readonly string[]): Promise<CtlRun> {
  return new Promise((done) => {
    execFile(
      process.execPath,
      [PROGRAM, ...args, "--config", node.configFile],
      { timeout: 60_000, maxBuffer: 16 * 1024 * 1024 },
      (error, stdout, stderr) =>
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
