import { spawn } from "node:child_process";
import { once } from "node:events";
import { delimiter, resolve } from "node:path";
import { setTimeout } from "node:timers/promises";
import type { LabRun } from "../test/machine/lab-run.ts";
import type { Narrator } from "./narrator.mjs";

const BIN = resolve(import.meta.dirname, "../node_modules/.bin");
const COUNTING = ["--reporter=default", `--reporter=${resolve(import.meta.dirname, "count-tests.ts")}`];

/** What to run as a step. */
export interface ToolStep {
  /** Name and words of the step; see {@link Narrator.step}. */
  readonly name: string;
  readonly doing: string;
  /** A program of our npm packages, or a path. */
  readonly tool: string;
  readonly args: readonly string[];
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Ends it. */
  readonly run?: LabRun;
}

/** How a tool ended, and all that it printed. */
export interface ToolEnd {
  readonly code: number;
  readonly output: string;
}

/** Runs vitest as a step; in a terminal the step counts files and tests. */
export function runVitest(narrator: Narrator, step: Omit<ToolStep, "tool">): Promise<ToolEnd> {
  const args = ["run", ...(process.stdout.isTTY ? COUNTING : []), ...step.args];
  return runTool(narrator, { ...step, tool: "vitest", args });
}

/** Runs a program to its end as a step and passes on what it prints. */
export function runTool(narrator: Narrator, step: ToolStep): Promise<ToolEnd> {
  return narrator.step(step.name, step.doing, async () => {
    const result = await runToEnd(narrator, step);
    return { say: `${step.doing}${result.code === 0 ? "" : ": failed"}`, result };
  });
}

async function runToEnd(narrator: Narrator, { tool, args, cwd, env, run }: ToolStep): Promise<ToolEnd> {
  const child = spawn(tool.includes("/") ? tool : resolve(BIN, tool), args, {
    stdio: ["inherit", "pipe", "pipe", ...(tool === "vitest" ? (["ipc"] as const) : [])],
    ...(cwd === undefined ? {} : { cwd }),
    env: {
      ...process.env,
      // The tools' first line takes `node` from PATH; it must be the pinned one.
      PATH: `${BIN}${delimiter}${process.env["PATH"] ?? ""}`,
      ...(process.stdout.isTTY ? { FORCE_COLOR: "1" } : {}),
      ...env,
    },
  });
  child.on("message", (text) => narrator.show(String(text)));
  let output = "";
  for (const stream of ["stdout", "stderr"] as const) {
    child[stream]?.setEncoding("utf8").on("data", (text: string) => {
      output += text;
      narrator.pass(text, process[stream]);
    });
  }
  const closed = once(child, "close").catch(() => undefined);
  const exited = once(child, "exit");
  const end = run?.cleanup.defer(`end ${tool}`, async () => {
    child.kill();
    await exited;
  });
  const [code] = (await exited) as [number | null];
  await end?.();
  // What it printed last; but a process that it left behind may hold on to the pipes.
  await Promise.race([closed, setTimeout(2_000)]);
  for (const stream of [child.stdout, child.stderr]) stream?.destroy();
  return { code: code ?? 1, output };
}
