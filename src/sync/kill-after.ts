import type { ChildProcess } from "node:child_process";

/**
 * Kills a program that has not ended after so many milliseconds. Not spawn's own timeout: where the program could not be
 * started it runs on (Node 24), and holds up our own end.
 */
export function killAfter(child: ChildProcess, ms: number): void {
  const limit = setTimeout(() => child.kill("SIGKILL"), ms);
  const over = () => clearTimeout(limit);
  child.once("error", over);
  child.once("close", over);
}
