// Runs IPAM plugins from a directory that the daemon sees, for claims: kubelet's call brings no CNI executable that could.
import { spawn } from "node:child_process";
import { join } from "node:path";
import type { Delegate, DelegateReply } from "./ipam.ts";

/** Kubelet waits 45 s for all that is done for a claim, and the pod's event is to say what failed. */
const LIMIT_MS = 15_000;
/** As the CNI executable limits the plugins that it runs (src/cni/shim/PROTOCOL.md), and with its exit codes. */
const OUTPUT_MAX = 1024 * 1024;
const TIMED_OUT = 124;
const OUTPUT_TOO_LONG = 126;
const NOT_FOUND = 127;
const BY_SIGNAL = 128 + 9;

/** Makes a {@link Delegate} of the executables in a directory. What they write to stderr is in the daemon's log. */
export function executePluginsOf(directory: string): Delegate {
  return ({ type, env, stdin, limitMs = LIMIT_MS }) =>
    new Promise<DelegateReply>((resolve) => {
      const child = spawn(join(directory, type), {
        env: { ...env, CNI_PATH: directory },
        stdio: ["pipe", "pipe", "inherit"],
        // A group of its own, so that nothing that the plugin started outlives its limit.
        detached: true,
      });
      let ended: number | undefined;
      const end = (exitCode: number) => {
        ended ??= exitCode;
        if (child.pid !== undefined) killGroup(child.pid);
      };
      const timer = setTimeout(() => end(TIMED_OUT), limitMs);
      const chunks: Buffer[] = [];
      let bytes = 0;
      child.stdout.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > OUTPUT_MAX) end(OUTPUT_TOO_LONG);
        else chunks.push(chunk);
      });
      // A plugin need not read its configuration.
      child.stdin.on("error", () => undefined);
      child.stdin.end(stdin);
      child.on("error", () => {
        clearTimeout(timer);
        resolve({ exitCode: NOT_FOUND, stdout: "" });
      });
      child.on("close", (code) => {
        clearTimeout(timer);
        const stdout = ended === undefined ? Buffer.concat(chunks).toString("utf8") : "";
        resolve({ exitCode: ended ?? code ?? BY_SIGNAL, stdout });
      });
    });
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It has ended meanwhile.
  }
}
