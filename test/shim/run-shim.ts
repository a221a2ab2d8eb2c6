import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";

/** The executable under test, and what has to run it on this machine (qemu-aarch64). */
export interface ShimCommand {
  readonly executable: string;
  readonly runner?: readonly string[];
}

/** One call. */
export interface ShimCall {
  /** The whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Undefined leaves stdin open and silent. */
  readonly stdin: string | Buffer | undefined;
  readonly spawn?: SpawnOptions;
  /** Of stdout and stderr; latin1 keeps every byte. Default utf8. */
  readonly encoding?: "latin1";
  /** A shell line before it runs in place of the shell, for example what closes descriptors. */
  readonly shell?: string;
}

/** How a call ended. */
export interface ShimEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A call that runs. */
export interface RunningShim {
  readonly process: ChildProcess;
  readonly ended: Promise<ShimEnd>;
}

/** Starts the executable; `shell` may use "$@" for it. */
export function startShim(command: ShimCommand, call: ShimCall): RunningShim {
  const line = [...(command.runner ?? []), command.executable];
  const [program = "", ...args] = call.shell === undefined ? line : ["sh", "-c", call.shell, "sh", ...line];
  const child = spawn(program, args, { env: { ...call.env }, stdio: "pipe", ...call.spawn });
  const texts = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name]?.setEncoding(call.encoding ?? "utf8").on("data", (chunk: string) => {
      texts[name] += chunk;
    });
  }
  child.stdin?.on("error", () => undefined); // it may end before it has read everything
  if (call.stdin !== undefined) child.stdin?.end(call.stdin);
  const ended = once(child, "close").then(([code, signal]) => ({ code, signal, ...texts }) as ShimEnd);
  return { process: child, ended };
}
