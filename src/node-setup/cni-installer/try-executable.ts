import { spawn } from "node:child_process";
import { Failure, systemCode } from "../../failure/failure.ts";
import { killAfter } from "../../sync/deadlines.ts";

/** It answers in a millisecond. */
const LIMIT_MS = 10_000;

/**
 * Runs a CNI executable where it is to be used, with the one verb that it answers without the daemon: a mount with
 * noexec, or a processor that cannot run it, shows here and not in the first pod.
 * @throws Failure cni-directory-unfit with the reason
 */
export async function tryExecutable(path: string): Promise<void> {
  const child = spawn(path, [], {
    stdio: ["ignore", "pipe", "ignore"],
    env: { CNI_COMMAND: "VERSION" },
  });
  killAfter(child, LIMIT_MS);
  let answer = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    answer = (answer + text).slice(0, 4096);
  });
  const end = await new Promise<number | string>((resolve, reject) => {
    child.once("error", (error) => {
      // Another installer has removed it as a leftover: its own is in place then, or is being put there.
      if (systemCode(error) === "ENOENT") return reject(error);
      return resolve(systemCode(error) ?? error.message);
    });
    child.once("close", (code, signal) => resolve(code ?? signal ?? "nothing"));
  });
  if (end === 0 && answer.includes('"supportedVersions"')) return;
  throw new Failure({
    code: "cni-directory-unfit",
    what: `the CNI executable cannot be run there: VERSION ended with ${end}`,
    where: path,
    fix:
      end === "EACCES"
        ? "mount the directory without noexec, or use the directory where the container runtime has its CNI plugins"
        : "check the node's processor and its security modules' log",
  });
}
