import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { Failure, systemCode } from "../failure/failure.ts";
import { killAfter } from "../sync/deadlines.ts";

/** Where the kernel is asked and how the tool is run. */
export interface LabelOptions {
  /** Default `/proc/filesystems`: it lists selinuxfs where SELinux is on, inside containers too. */
  readonly fileSystems?: string;
  /** Default {@link runProgram}. */
  readonly run?: typeof runProgram;
}

/** Whether labels mean anything on this kernel. */
export async function isSelinuxOn(options: LabelOptions = {}): Promise<boolean> {
  const text = await readFile(options.fileSystems ?? "/proc/filesystems", "utf8");
  return text.split("\n").some((line) => line.trim().split(/\s+/).at(-1) === "selinuxfs");
}

/**
 * Gives open directories an SELinux label. Node has no setxattr(2), so chcon does it, on descriptors that it
 * inherits: there is no name on the way that a pod could swap for a link.
 * @returns `unsupported` where the kernel or the file system has no labels, which is no error
 * @throws Failure `label-refused` where the policy forbids it; `part-missing` without chcon
 */
export async function setSelinuxLabel(
  descriptors: readonly number[],
  label: string,
  options: LabelOptions = {},
): Promise<"set" | "unsupported"> {
  if (!(await isSelinuxOn(options))) return "unsupported";
  const paths = descriptors.map((_, index) => `/proc/self/fd/${index + 3}`);
  let end: ProgramEnd;
  try {
    end = await (options.run ?? runProgram)("chcon", ["--dereference", "--", label, ...paths], descriptors);
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
    throw new Failure({
      code: "part-missing",
      what: "chcon is not installed, but a pool has an selinuxLabel",
      fix: "put coreutils into the daemon's image",
      cause: error,
    });
  }
  if (end.code === 0) return "set";
  if (/Operation not supported/.test(end.stderr)) return "unsupported";
  throw new Failure({
    code: "label-refused",
    what: `the label ${JSON.stringify(label)} cannot be set: ${end.stderr.trim().slice(0, 500)}`,
    where: "directory.selinuxLabel of the pool",
    fix: "check that the policy knows it and lets the daemon relabel (securityContext.seLinuxOptions.type: spc_t)",
  });
}

/** What a program said and how it ended. */
export interface ProgramEnd {
  readonly code: number | null;
  readonly stderr: string;
}

const LIMIT_MS = 10_000;

/** Runs a program of the system's that inherits `descriptors` as its 3, 4, ...; rejects when it cannot be started. */
export function runProgram(
  command: string,
  args: readonly string[],
  descriptors: readonly number[],
): Promise<ProgramEnd> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      stdio: ["ignore", "ignore", "pipe", ...descriptors],
      // Its messages are read.
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" },
    });
    killAfter(child, LIMIT_MS);
    let stderr = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      stderr = (stderr + text).slice(0, 4096);
    });
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, stderr }));
  });
}
