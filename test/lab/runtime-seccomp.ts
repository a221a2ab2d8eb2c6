import { join } from "node:path";
import type { LabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";
import { partMissing } from "../shim/part-missing.ts";
import type { Mount } from "./pod.ts";

const SOURCE = join(import.meta.dirname, "runtime-seccomp.c");
const IN_CONTAINER = "/runtime-seccomp";
const compiled = new WeakMap<LabRun, Promise<string>>();

/**
 * What puts a container's program under the seccomp profile `RuntimeDefault`.
 * @param capabilities those that the pod's manifest adds
 * @throws Failure part-missing
 */
export async function runtimeSeccomp(
  run: LabRun,
  capabilities: readonly string[],
): Promise<{ readonly mounts: readonly Mount[]; readonly prefix: readonly string[] }> {
  const program = compiled.get(run) ?? compile(join(run.directory, "runtime-seccomp"));
  compiled.set(run, program);
  return {
    mounts: [{ hostPath: await program, containerPath: IN_CONTAINER, readOnly: true }],
    prefix: [IN_CONTAINER, capabilities.join()],
  };
}

async function compile(output: string): Promise<string> {
  const flags = ["-static", "-O2", "-Wall", "-Wextra", "-Werror"];
  await runProgram("gcc", [...flags, "-o", output, SOURCE]).catch(partMissing("gcc", "gcc libc6-dev"));
  return output;
}
