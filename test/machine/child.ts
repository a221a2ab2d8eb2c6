import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { systemClock } from "../../src/clock/clock.ts";
import { Failure } from "../../src/failure/failure.ts";
import type { LabRun } from "./lab-run.ts";
import { identifyProcess } from "./process-table.ts";

/** A program that a run started. */
export interface Child {
  readonly name: string;
  readonly pid: number;
  /** File with what it prints on both outputs. */
  readonly log: string;
  /** Resolves when it is gone, with its exit code or the signal's name. */
  readonly ended: Promise<number | string>;
  /** Its standard input, where `stdin: true` asked for it. */
  readonly stdin: Writable | undefined;
  isRunning(): boolean;
  /** Sends a signal, nothing where it is gone. */
  kill(signal: NodeJS.Signals): void;
  /** SIGTERM, after the limit SIGKILL, and waits until it is gone. Idempotent. */
  stop(): Promise<void>;
  /** The last lines of the log. */
  logTail(lines?: number): Promise<string>;
}

/** What to start. */
export interface ChildOptions {
  /** Name of the log file, and what errors call it. */
  readonly name: string;
  readonly command: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Where the log goes; default the run's directory. */
  readonly logDirectory?: string;
  readonly stdin?: boolean;
  /** Patience between SIGTERM and SIGKILL; default 5000. */
  readonly stopLimitMs?: number;
  /** Sent by {@link Child.stop} first; default SIGTERM. */
  readonly stopSignal?: NodeJS.Signals;
  /** Who gets the signals, where the program itself is below the pid that was started (a container). */
  readonly signalPid?: () => number | undefined;
}

/**
 * Starts a program that ends with the run at the latest. It has a session of its own (Ctrl-C at the terminal does
 * not reach it: the clean-up ends it in order) and the kernel kills it when this process dies, even by SIGKILL.
 * @throws Failure part-missing where the program does not exist
 */
export async function startChild(run: LabRun, options: ChildOptions): Promise<Child> {
  const log = join(options.logDirectory ?? run.directory, `${options.name}.log`);
  const output = openSync(log, "a");
  const child = spawn("setpriv", ["--pdeathsig", "KILL", "--", options.command, ...(options.args ?? [])], {
    stdio: [options.stdin === true ? "pipe" : "ignore", output, output],
    // The run's name lets whoever looks at the process tell whose it is.
    env: { ...process.env, KUBE_VHOSTUSER_RUN: run.name, ...options.env },
    detached: true,
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  });
  closeSync(output);
  const ended = new Promise<number | string>((resolve) => {
    child.once("exit", (code, signal) => resolve(code ?? signal ?? "unknown"));
  });
  child.stdin?.on("error", () => undefined); // writing to a program that is gone shows as its end
  try {
    await once(child, "spawn");
  } catch (cause) {
    const fix = "apt-get install util-linux";
    throw new Failure({ code: "part-missing", what: 'the program "setpriv" is not installed', fix, cause });
  }
  const pid = child.pid ?? -1;
  const identity = identifyProcess(pid);
  const trace =
    identity === undefined ? undefined : run.journal.note({ kind: "process", identity, finish: false });

  const isRunning = () => child.exitCode === null && child.signalCode === null;
  const kill = (signal: NodeJS.Signals) => {
    if (isRunning()) process.kill(options.signalPid?.() ?? pid, signal);
  };
  const stop = run.cleanup.defer(`stop ${options.name}`, async () => {
    kill(options.stopSignal ?? "SIGTERM");
    const inTime = new AbortController();
    const force = systemClock
      .sleep(options.stopLimitMs ?? 5000, inTime.signal)
      .then(() => kill("SIGKILL"))
      .catch(() => undefined);
    await ended;
    inTime.abort();
    await force;
    if (trace !== undefined) run.journal.strike(trace);
  });
  const logTail = async (lines = 20) =>
    (await readFile(log, "utf8")).trimEnd().split("\n").slice(-lines).join("\n");
  return {
    name: options.name,
    pid,
    log,
    ended,
    stdin: child.stdin ?? undefined,
    isRunning,
    kill,
    stop,
    logTail,
  };
}
