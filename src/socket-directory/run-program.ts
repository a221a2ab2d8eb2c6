import { spawn } from "node:child_process";

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
    // Not spawn's own timeout: where the program could not be started it runs on, and holds up our own end.
    const limit = setTimeout(() => child.kill("SIGKILL"), LIMIT_MS);
    let stderr = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      stderr = (stderr + text).slice(0, 4096);
    });
    child.once("error", (error) => {
      clearTimeout(limit);
      reject(error);
    });
    child.once("close", (code) => {
      clearTimeout(limit);
      resolve({ code, stderr });
    });
  });
}
