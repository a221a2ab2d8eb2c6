import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { systemClock } from "../../src/clock/clock.ts";
import { Failure } from "../../src/failure/failure.ts";

const STOP_LIMIT_MS = 10_000;

/** A program that the lab started and will end by its pid. */
export interface ChildProgram {
  readonly pid: number;
  /** Rejects when the program ends on its own; never settles while it runs or is ended by {@link stop}. */
  readonly died: Promise<never>;
  /** Signals it and resolves once it is gone; SIGTERM grows into SIGKILL after ten seconds. */
  stop(signal?: "SIGTERM" | "SIGKILL"): Promise<void>;
}

/** What to start. */
export interface ChildProgramOptions {
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** How to get the program where it is missing. */
  readonly fix: string;
}

/**
 * Starts a program that cannot outlive this process: setpriv has the kernel kill it when its parent dies, even by
 * SIGKILL, so an aborted test run leaves no PMD thread behind.
 * @throws Failure part-missing where the command (or setpriv) does not exist
 */
export async function startChildProgram(options: ChildProgramOptions): Promise<ChildProgram> {
  const child = spawn("setpriv", ["--pdeathsig", "KILL", options.command, ...options.args], {
    stdio: ["ignore", "ignore", "pipe"],
    detached: true, // a Ctrl-C at the terminal is for the test run, which ends its programs in order
    env: { ...process.env, ...options.env },
  });
  try {
    await once(child, "spawn");
  } catch (cause) {
    throw new Failure({
      code: "part-missing",
      what: "cannot start setpriv",
      fix: "apt-get install util-linux",
      cause,
    });
  }
  return track(child, options);
}

function track(child: ChildProcess, options: ChildProgramOptions): ChildProgram {
  let stopping = false;
  let words = "";
  child.stderr?.setEncoding("utf8").on("data", (chunk: string) => {
    words = (words + chunk).slice(-4096);
  });
  const closed = once(child, "close");
  const died = new Promise<never>((_resolve, reject) => {
    child.once("close", (status, signal) => {
      if (stopping) return;
      const missing = status === 127;
      reject(
        new Failure({
          code: missing ? "part-missing" : "dataplane-unavailable",
          what: `${options.command} ended on its own with ${signal ?? status}: ${words.trim()}`,
          ...(missing ? { fix: options.fix } : {}),
        }),
      );
    });
  });
  died.catch(() => undefined); // who does not race it sees the dead program by what it no longer answers
  return {
    pid: child.pid ?? -1,
    died,
    stop: async (signal = "SIGTERM") => {
      stopping = true;
      if (child.exitCode === null && child.signalCode === null) child.kill(signal);
      const giveUp = new AbortController();
      const force = systemClock
        .sleep(STOP_LIMIT_MS, giveUp.signal)
        .then(() => child.kill("SIGKILL"))
        .catch(() => undefined);
      await closed;
      giveUp.abort();
      await force;
    },
  };
}
