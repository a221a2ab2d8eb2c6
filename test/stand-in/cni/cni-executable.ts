import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { compileShim } from "../../../scripts/build/compile-shim.ts";
import type { ShimEnd, ShimRun } from "./shim-client.ts";

/** The CNI executable that ships, compiled for the test. */
export interface CniExecutable extends AsyncDisposable {
  /** Directory that holds it, under the name that configurations have as `type`. */
  readonly binDir: string;
  /** Runs a verb as a runtime does. */
  run(run: ShimRun): Promise<ShimEnd>;
}

/** Compiles it into a directory of its own. */
export async function compileCniExecutable(): Promise<CniExecutable> {
  const binDir = await mkdtemp(join(tmpdir(), "kvu-bin-"));
  const program = await compileShim({ output: join(binDir, "kube-vhostuser") });
  return {
    binDir,
    run: ({ socketPath, env, stdin }) =>
      execute(program, { PATH: "/usr/bin:/bin", ...env, KUBE_VHOSTUSER_CNI_SOCKET: socketPath }, stdin),
    [Symbol.asyncDispose]: () => rm(binDir, { recursive: true }),
  };
}

function execute(
  program: string,
  env: Readonly<Record<string, string>>,
  stdin: string | Buffer,
): Promise<ShimEnd> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, [], { env: { ...env }, stdio: ["pipe", "pipe", "inherit"] });
    let stdout = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    child.stdin.on("error", () => undefined);
    child.on("error", reject);
    child.on("close", (code, signal) =>
      code === null ? reject(new Error(`ended by ${signal}`)) : resolve({ exitCode: code, stdout }),
    );
    child.stdin.end(stdin);
  });
}
