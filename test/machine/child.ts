import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, fstatSync, openSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { Failure, systemCode } from "../../src/failure/failure.ts";
import { systemClock } from "../../src/sync/clock.ts";
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
  /**
   * Rejects with its last words when it is gone without {@link stop}; else it never settles. To race with what the
   * program is waited for. Failure part-missing where it never was on this machine.
   */
  readonly died: Promise<never>;
  /** Its standard input, where `stdin: true` asked for it. */
  readonly stdin: Writable | undefined;
  isRunning(): boolean;
  /** Sends a signal, nothing where it is gone. */
  kill(signal: NodeJS.Signals): void;
  /** A signal (by default that of the options), after the limit SIGKILL, and waits until it is gone. Idempotent. */
  stop(signal?: NodeJS.Signals): Promise<void>;
  /** The last lines of the log. */
  logTail(lines?: number): Promise<string>;
}

/** What to start. */
export interface ChildOptions {
  /** Name of the log file, and what errors call it. */
  readonly name: string;
  readonly command: string;
  readonly args?: readonly string[];
  /** Added to the environment. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Where the log goes; default the run's directory. */
  readonly logDirectory?: string;
  readonly stdin?: boolean;
  /** How to get the program where it is missing. */
  readonly fix?: string;
  /** Milliseconds between SIGTERM and SIGKILL; default 5000. */
  readonly stopLimitMs?: number;
  /** Sent by {@link Child.stop} first; default SIGTERM. */
  readonly stopSignal?: NodeJS.Signals;
  /** Who gets the signals, where the program itself is below the pid that was started (a container). */
  readonly signalPid?: () => number | undefined;
}

/**
 * Starts a program that ends with the run at the latest. It has a session of its own (Ctrl-C at the terminal does
 * not reach it: the clean-up ends it in order) and the kernel kills it when this process dies, even by SIGKILL.
 * A program that does not exist shows as one that dies at once.
 * @throws Failure part-missing where setpriv is not installed
 */
export async function startChild(run: LabRun, options: ChildOptions): Promise<Child> {
  const log = join(options.logDirectory ?? run.directory, `${options.name}.log`);
  const output = openSync(log, "a");
  const from = fstatSync(output).size; // a program of the same name may have run before
  const child = spawn("setpriv", ["--pdeathsig", "KILL", "--", options.command, ...(options.args ?? [])], {
    stdio: [options.stdin === true ? "pipe" : "ignore", output, output],
    // The run's name shows in a process list whose process it is.
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

  let stopping = false;
  const died = ended.then(async (end): Promise<never> => {
    if (stopping) return new Promise(() => undefined);
    throw death(options, end, (await readFile(log)).subarray(from).toString());
  });
  died.catch(() => undefined); // a caller that does not race it notices by missing answers

  const isRunning = () => child.exitCode === null && child.signalCode === null;
  const kill = (signal: NodeJS.Signals) => {
    if (!isRunning()) return;
    try {
      process.kill(options.signalPid?.() ?? pid, signal);
    } catch (error) {
      // A container's first process may have ended, by an OOM kill for example, a moment before the program around it.
      if (systemCode(error) !== "ESRCH") throw error;
    }
  };
  let stopSignal = options.stopSignal ?? "SIGTERM";
  const stop = run.cleanup.defer(`stop ${options.name}`, async () => {
    stopping = true;
    kill(stopSignal);
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
    died,
    isRunning,
    kill,
    stop: (signal) => {
      stopSignal = signal ?? stopSignal;
      return stop();
    },
    logTail,
  };
}

/** setpriv itself ends with 127 where there is no such program. */
function death(options: ChildOptions, end: number | string, words: string): Failure {
  const missing = end === 127;
  return new Failure({
    code: missing ? "part-missing" : "internal",
    what: `${options.name} ended with ${end}: ${words.trim().slice(-4096)}`,
    ...(missing && options.fix !== undefined ? { fix: options.fix } : {}),
  });
}
