import { spawn } from "node:child_process";
import { once } from "node:events";

/** A program to be run to its end with the clock running. */
export interface TimedProgram {
  readonly command: string;
  readonly args?: readonly string[];
  /** The whole environment: nothing is inherited. */
  readonly env: Readonly<Record<string, string>>;
  /** Given on standard input. */
  readonly input?: string;
  /** Called with its pid as soon as it runs. */
  readonly onSpawn?: (pid: number) => void;
}

/** How long it took, and what it printed. */
export interface TimedRun {
  readonly ms: number;
  readonly stdout: string;
}

/**
 * Runs a program as a container runtime would: from before its process is made until it is gone and its output is
 * read. Starting a process from Node is part of the time, for every program alike.
 * @throws Error with its words where it fails
 */
export async function timeProgram(program: TimedProgram): Promise<TimedRun> {
  const begin = performance.now();
  const child = spawn(program.command, program.args ?? [], { env: { ...program.env }, cwd: "/" });
  child.once("spawn", () => program.onSpawn?.(child.pid ?? -1));
  const output = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output.stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    output.stderr += text;
  });
  child.stdin.on("error", () => undefined); // a program that does not read its input ends as it ends
  child.stdin.end(program.input ?? "");
  const [code, signal] = await once(child, "close");
  const ms = performance.now() - begin;
  if (code === 0) return { ms, stdout: output.stdout };
  const words = `${output.stdout}${output.stderr}`.trim();
  throw new Error(
    `${program.command} ${(program.args ?? []).join(" ")} ended with ${code ?? signal}: ${words}`,
  );
}

/** Milliseconds that some work takes. */
export async function timeWork(work: () => Promise<unknown>): Promise<number> {
  const begin = performance.now();
  await work();
  return performance.now() - begin;
}
