import { setTimeout as delay } from "node:timers/promises";
import { systemCode } from "../../src/failure/failure.ts";

/** Stops a process, as a debugger or an overloaded machine does, and continues it. It may end meanwhile. */
export async function freeze(pid: number, ms: number): Promise<void> {
  if (!signalled(pid, "SIGSTOP")) return;
  try {
    await delay(ms);
  } finally {
    signalled(pid, "SIGCONT");
  }
}

function signalled(pid: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(pid, signal);
    return true;
  } catch (error) {
    if (systemCode(error) === "ESRCH") return false;
    throw error;
  }
}
