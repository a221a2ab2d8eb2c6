import { chmod, rm, writeFile } from "node:fs/promises";
import { systemCode } from "../../src/failure/failure.ts";
import type { LabRun } from "./lab-run.ts";

const POLICY = "/usr/sbin/policy-rc.d";
/** 101: action forbidden by policy, see invoke-rc.d(8). */
const TEXT = "#!/bin/sh\n# Made by the lab of kube-vhostuser while it installs packages.\nexit 101\n";

/**
 * Runs `work` while no package that it installs can start a service. Where the machine has a policy of its own (as
 * container images do) that one rules.
 */
export async function withoutServices<T>(run: LabRun, work: () => Promise<T>, path = POLICY): Promise<T> {
  const trace = run.journal.note({ kind: "file", path, text: TEXT });
  try {
    await writeFile(path, TEXT, { flag: "wx" });
  } catch (error) {
    run.journal.strike(trace);
    if (systemCode(error) === "EEXIST") return work();
    throw error;
  }
  const remove = run.cleanup.defer(`remove ${path}`, async () => {
    await rm(path, { force: true });
    run.journal.strike(trace);
  });
  try {
    await chmod(path, 0o755);
    return await work();
  } finally {
    await remove();
  }
}
