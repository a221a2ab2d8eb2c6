import { spawn } from "node:child_process";
import { killAfter } from "../../sync/deadlines.ts";

/** What a program said and how it ended. */
export interface ProgramEnd {
  readonly code: number | null;
  readonly stderr: string;
}

const LIMIT_MS = 10_000;

/** Runs a program of the system's that inherits `descriptors` as its 3, 4, ...; rejects when it cannot be started. */
export function runProgram(
  command: string,
  args: readonly string[],
  descriptors: readonly number[],
): Promise<ProgramEnd> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      stdio: ["ignore", "ignore", "pipe", ...descriptors],
      // Its messages are read.
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" },
    });
    killAfter(child, LIMIT_MS);
    let stderr = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      stderr = (stderr + text).slice(0, 4096);
    });
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, stderr }));
  });
}
