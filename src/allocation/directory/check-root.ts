import { lstat, readFile, realpath, stat } from "node:fs/promises";
import { Failure, systemCode } from "../../failure/failure.ts";
import { mountOf, parseMountInfo } from "./mount-info.ts";

/**
 * What the root's mount must have, or a pod reaches beyond its directory: `nosymfollow` keeps the switch from
 * following a link that a pod planted in the place of its socket, the others take programs and devices off it.
 */
export const ROOT_FLAGS = ["nosymfollow", "nosuid", "nodev", "noexec"] as const;

/** The name under which the root's file system is mounted, by which it is known again. */
export const ROOT_SOURCE = "vhostuser";

const FIX =
  "run dist/mount-root/main.mjs as root before the daemon (the DaemonSet's init container, docs/install.md)";

/** What is checked, and where mounts are read. */
export interface RootCheck {
  readonly root: string;
  /** Flags that are missing are given back instead of thrown. */
  readonly allowInsecure: boolean;
  /** Default `/proc/self/mountinfo`. */
  readonly mountInfo?: string;
}

/**
 * Checks that the root is there and is a file system of its own with all of {@link ROOT_FLAGS}.
 * @returns what is wrong with it; empty, unless insecure roots are allowed
 * @throws Failure `root-missing`, `root-insecure`, `invalid-config`
 */
export async function checkRoot(check: RootCheck): Promise<readonly string[]> {
  const path = await directoryPath(check.root);
  const mounts = parseMountInfo(await readFile(check.mountInfo ?? "/proc/self/mountinfo", "utf8"));
  const mount = mountOf(path, mounts);
  const problems: string[] = [];
  const isOwn = mount?.mountPoint === path && mount.part === "/";
  if (!isOwn) problems.push("it is no file system of its own, so nothing bounds it");
  const missing = ROOT_FLAGS.filter((flag) => mount?.flags.has(flag) !== true);
  if (missing.length > 0) problems.push(`its mount lacks ${missing.join(",")}`);
  if (problems.length === 0 || check.allowInsecure) return problems;
  throw new Failure({
    code: "root-insecure",
    what: `the root is not safe against its pods: ${problems.join("; ")}`,
    where: check.root,
    fix: `${cure(path, isOwn)}; rootFileSystem.allowInsecure: true is for trying things out`,
  });
}

function cure(path: string, isOwnMount: boolean): string {
  // A mount's flags are those of one mount point in one mount namespace: a pod cannot mend the host's.
  return isOwnMount ? `on the node itself run: mount -o remount,${ROOT_FLAGS.join(",")} ${path}` : FIX;
}

/**
 * Refuses a root that is itself a link: whoever works in it opens it without following one, so that nobody can swap it.
 * Links above it, such as /var/run, are as good as directories.
 * @throws Failure `invalid-config`; one that is missing is none
 */
export async function refuseLink(root: string): Promise<void> {
  const status = await lstat(root).catch(() => undefined);
  if (status?.isSymbolicLink() !== true) return;
  const target = await realpath(root).catch(() => undefined);
  throw new Failure({
    code: "invalid-config",
    what: "the directory of all allocations is a symbolic link",
    where: root,
    fix: `set the configuration's root to ${target ?? "the directory itself"}, or make that path a directory`,
  });
}

async function directoryPath(root: string): Promise<string> {
  try {
    await refuseLink(root);
    const path = await realpath(root);
    if ((await stat(path)).isDirectory()) return path;
  } catch (error) {
    if (systemCode(error) !== "ENOENT" && systemCode(error) !== "ENOTDIR") throw error;
  }
  throw new Failure({
    code: "root-missing",
    what: "the directory of all allocations is not there",
    where: root,
    fix: FIX,
  });
}
