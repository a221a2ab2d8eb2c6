import { spawn } from "node:child_process";
import { Failure, systemCode } from "../../src/failure/failure.ts";
import { killAfter } from "../../src/sync/deadlines.ts";

/** How to run a program to its end. */
export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Given on standard input. */
  readonly input?: string;
  /** Killed after this long; default 60 000. */
  readonly limitMs?: number;
  /** Kills it. */
  readonly signal?: AbortSignal;
  /** Called with every line of both outputs while it runs. */
  readonly onLine?: (line: string) => void;
  /** False gives it a session of its own, so that a Ctrl-C at the terminal does not reach it. */
  readonly sharesTerminal?: boolean;
  /** Called with its pid as soon as it runs. */
  readonly onSpawn?: (pid: number) => void;
}

/** What a program printed. */
export interface RunOutput {
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a program to its end and gives what it printed.
 * @throws Failure part-missing where it does not exist; internal with its words where it fails or takes too long;
 *   the signal's reason where that ended it
 */
export function runProgram(
  command: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<RunOutput> {
  const limitMs = options.limitMs ?? 60_000;
  const line = [command, ...args].join(" ");
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      stdio: "pipe",
      env: { ...process.env, ...options.env },
      detached: options.sharesTerminal === false,
      killSignal: "SIGKILL",
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    });
    killAfter(child, limitMs);
    child.once("spawn", () => options.onSpawn?.(child.pid ?? -1));
    const stdout = collect(child.stdout, options.onLine);
    const stderr = collect(child.stderr, options.onLine);
    child.stdin.on("error", () => undefined); // a program that does not read its input ends as it ends
    child.stdin.end(options.input ?? "");
    child.on("error", (cause) => {
      if (options.signal?.aborted === true) return reject(options.signal.reason);
      const missing = systemCode(cause) === "ENOENT";
      return reject(
        new Failure({
          code: missing ? "part-missing" : "internal",
          what: missing ? `the program "${command}" is not installed` : `cannot run "${line}"`,
          cause,
        }),
      );
    });
    child.on("close", (code, signal) => {
      if (code === 0) return resolve({ stdout: stdout(), stderr: stderr() });
      const end = code === null ? `was ended by ${signal} (limit ${limitMs} ms)` : `failed with ${code}`;
      const words = (stderr().trim() || stdout().trim()).slice(-2000);
      return reject(new Failure({ code: "internal", what: `"${line}" ${end}: ${words}` }));
    });
  });
}

function collect(stream: NodeJS.ReadableStream, onLine: RunOptions["onLine"]): () => string {
  let text = "";
  let rest = "";
  stream.setEncoding("utf8");
  stream.on("data", (chunk: string) => {
    text += chunk;
    if (onLine === undefined) return;
    const lines = (rest + chunk).split(/[\r\n]+/);
    rest = lines.pop() ?? "";
    for (const each of lines) if (each !== "") onLine(each);
  });
  return () => text;
}
