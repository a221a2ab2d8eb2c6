import { spawn } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { isRecord } from "./is-record.ts";

/** The plugin answered with a CNI error, in the right form. */
export class CniError extends Error {
  override readonly name = "CniError";
  readonly code: number;
  readonly details: string | undefined;

  constructor(answer: {
    readonly code: number;
    readonly msg: string;
    readonly details?: string | undefined;
  }) {
    super(answer.msg);
    this.code = answer.code;
    this.details = answer.details;
  }
}

/** The plugin broke a rule of the CNI specification. */
export class CniViolation extends Error {
  override readonly name = "CniViolation";
}

/** One run of a plugin's executable. */
export interface PluginRun {
  readonly executable: string;
  /** The whole environment: nothing is inherited. */
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: Readonly<Record<string, unknown>>;
  /** Milliseconds; default 60 000. */
  readonly timeoutMs?: number;
}

/**
 * Runs a plugin and gives the JSON that it printed, undefined for an empty output.
 * @throws CniError what the plugin answered, CniViolation for an answer that CNI does not allow
 */
export async function runPlugin(run: PluginRun): Promise<unknown> {
  const verb = run.env["CNI_COMMAND"] ?? "";
  const { exitCode, stdout, stderr } = await executeUnlessBusy(run);
  const said = stderr.trim() === "" ? "" : `; stderr: ${stderr.trim()}`;
  const broke = (rule: string) =>
    new CniViolation(`${verb}: ${rule}; exit ${exitCode}, stdout ${JSON.stringify(stdout)}${said}`);
  let answer: unknown;
  if (stdout.trim() !== "") {
    try {
      answer = JSON.parse(stdout);
    } catch {
      throw broke("stdout is not JSON and nothing else");
    }
    if (!isRecord(answer)) throw broke("stdout is not a JSON object");
    // VERSION echoes the runtime's version, everything else the configuration's.
    if (answer["cniVersion"] !== run.stdin["cniVersion"])
      throw broke("cniVersion is not the one of the request");
  }
  if (exitCode === 0) {
    if (isRecord(answer) && "code" in answer) throw broke("an error, and yet exit 0");
    return answer;
  }
  if (!isRecord(answer)) throw broke("failed without an error on stdout");
  const { code, msg, details } = answer;
  if (!Number.isInteger(code) || Number(code) < 1)
    throw broke("the error's code is no positive whole number");
  if (typeof msg !== "string" || msg === "") throw broke("the error has no msg");
  if (details !== undefined && typeof details !== "string") throw broke("the error's details are no text");
  throw new CniError({ code: Number(code), msg, details });
}

interface Output {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** An executable that is being written (an installer at work) is tried again, five times as Multus does. */
async function executeUnlessBusy(run: PluginRun): Promise<Output> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await execute(run);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ETXTBSY" || attempt > 5) throw error;
      await delay(100);
    }
  }
}

function execute(run: PluginRun): Promise<Output> {
  return new Promise((resolve, reject) => {
    const child = spawn(run.executable, [], { env: { ...run.env }, cwd: "/", stdio: "pipe" });
    const timer = setTimeout(() => child.kill("SIGKILL"), run.timeoutMs ?? 60_000);
    const output = { stdout: "", stderr: "" };
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output.stdout += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      output.stderr += text;
    });
    // A plugin that exits without reading its input breaks the pipe; its exit code is what counts.
    child.stdin.on("error", () => undefined);
    child.on("error", (error) => {
      clearTimeout(timer);
      reject(error);
    });
    child.on("close", (exitCode) => {
      clearTimeout(timer);
      resolve({ exitCode, ...output });
    });
    child.stdin.end(JSON.stringify(run.stdin));
  });
}
