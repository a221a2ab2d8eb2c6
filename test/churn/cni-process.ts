import { spawn } from "node:child_process";
import { resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { freeze } from "../machine/freeze.ts";

/** The CNI executable as images have it. */
const EXECUTABLE = resolve(import.meta.dirname, "../../dist/cni/kube-vhostuser");

/** One run of the executable. */
export interface CniCall {
  /** The whole environment: nothing is inherited. */
  readonly env: Readonly<Record<string, string>>;
  /** Standard input. */
  readonly stdin: string;
  /** SIGKILL after so many milliseconds, as at the runtime's own timeout. */
  readonly killAfterMs?: number;
  /** SIGSTOP after so many milliseconds, and SIGCONT after so many more. */
  readonly freeze?: { readonly afterMs: number; readonly forMs: number };
}

/** How a run ended; no exit code where it was killed. */
export interface CniOutcome {
  readonly exitCode: number | undefined;
  readonly stdout: string;
}

/** Runs the executable to its end, or kills it. */
export async function callCni({ env, stdin, killAfterMs, freeze: pause }: CniCall): Promise<CniOutcome> {
  const child = spawn(EXECUTABLE, [], { env: { ...env }, cwd: "/", stdio: ["pipe", "pipe", "inherit"] });
  const closed = new Promise<CniOutcome>((done, fail) => {
    let stdout = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    child.on("error", fail);
    child.on("close", (code) => done({ exitCode: code ?? undefined, stdout }));
  });
  child.stdin.on("error", () => undefined); // killed before it read its input
  child.stdin.end(stdin);
  if (killAfterMs !== undefined) {
    await Promise.race([closed, delay(killAfterMs)]);
    child.kill("SIGKILL");
  }
  if (pause !== undefined && child.pid !== undefined) {
    await Promise.race([closed, delay(pause.afterMs)]);
    if (child.exitCode === null) await freeze(child.pid, pause.forMs);
  }
  return closed;
}
