import { lstat, readFile, realpath, stat } from "node:fs/promises";
import { describeThrown, Failure, systemCode } from "../failure/failure.ts";

/**
 * What the root's mount must have, or a pod reaches beyond its directory: `nosymfollow` keeps the switch from
 * following a link that a pod planted in the place of its socket, the others take programs and devices off it.
 */
export const ROOT_FLAGS = ["nosymfollow", "nosuid", "nodev", "noexec"] as const;

/**
 * The tmpfs counts no inodes, so that pods share no stock of them: what a pod piles up is charged to its own memory
 * cgroup (docs/security.md). As the kernel shows the option.
 */
export const UNCOUNTED_INODES = "nr_inodes=0";

/** The name under which the root's file system is mounted, by which it is known again. */
export const ROOT_SOURCE = "vhostuser";

const FIX =
  "run dist/mount-root/main.mjs as root before the daemon (the DaemonSet's init container, docs/install.md)";

/** What is checked, and where mounts are read. */
export interface RootCheck {
  readonly root: string;
  /** What is wrong is given back instead of thrown. */
  readonly allowInsecure: boolean;
  /** Default `/proc/self/mountinfo`. */
  readonly mountInfo?: string;
}

/**
 * Checks that the root is there and is a file system of its own with all of {@link ROOT_FLAGS}, a bound on bytes and
 * none on inodes.
 * @returns what is wrong with it; empty, unless insecure roots are allowed
 * @throws Failure `root-missing`, `root-insecure`, `invalid-config`
 */
export async function checkRoot(check: RootCheck): Promise<readonly string[]> {
  const { path, mount, isOwn } = await findRoot(check);
  const problems: string[] = [];
  if (!isOwn) problems.push("it is not a file system of its own, so nothing bounds it");
  const missing = ROOT_FLAGS.filter((flag) => mount?.flags.has(flag) !== true);
  if (missing.length > 0) problems.push(`its mount lacks ${missing.join(",")}`);
  if (isOwn && mount?.options.includes(UNCOUNTED_INODES) !== true) {
    problems.push(`it counts inodes, so one pod can use them up (no ${UNCOUNTED_INODES})`);
  }
  if (isOwn && mount?.options.some((option) => option.startsWith("size=")) !== true) {
    problems.push("nothing bounds its bytes (no size=)");
  }
  if (problems.length === 0 || check.allowInsecure) return problems;
  throw new Failure({
    code: "root-insecure",
    what: `the root is not safe against its pods: ${problems.join("; ")}`,
    where: check.root,
    fix: `${cure(path, mount, isOwn)}; rootFileSystem.allowInsecure: true is for trying things out`,
  });
}

/**
 * Follows the root of a running daemon. Its container keeps the file system that was mounted when it started: what the
 * node mounts over it is propagated, but not that it is unmounted. The mount then has no master any more.
 * @returns what is wrong with the root now, or undefined
 */
export async function followRoot(check: RootCheck): Promise<() => Promise<string | undefined>> {
  const { isSlave = false } = (await findRoot(check)).mount ?? {};
  return async () => {
    try {
      await checkRoot(check);
      if (!isSlave || (await findRoot(check)).mount?.isSlave === true) return undefined;
    } catch (error) {
      return describeThrown(error);
    }
    return `the root ${check.root} was unmounted on the node, and the daemon's container still has the old file system: new pods would not find their sockets`;
  };
}

/**
 * The root's real path and the mount that it lies on. The mount is its own where a whole file system is mounted exactly
 * there: in a container whose volume is a directory of the node, that directory appears as a mount of a part.
 * @throws Failure `root-missing`, `invalid-config`
 */
export async function findRoot({
  root,
  mountInfo = "/proc/self/mountinfo",
}: Omit<RootCheck, "allowInsecure">) {
  const path = await directoryPath(root);
  const mount = mountOf(path, parseMountInfo(await readFile(mountInfo, "utf8")));
  return { path, mount, isOwn: mount?.mountPoint === path && mount.part === "/" };
}

function cure(path: string, mount: Mount | undefined, isOwn: boolean): string {
  if (!isOwn || mount?.type !== "tmpfs") return FIX;
  // Flags belong to one mount point in one mount namespace: from a container the node's are not changed.
  return `on the node itself run: mount -o remount,${ROOT_FLAGS.join(",")},${UNCOUNTED_INODES},size=16m ${path}`;
}

/**
 * Refuses a root that is itself a link, because it is opened without following one. Links above it, such as /var/run,
 * do no harm.
 * @throws Failure `invalid-config`; not for a root that is missing
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

/** One line of `/proc/<pid>/mountinfo` (proc(5)): what is mounted where in that process' mount namespace. */
export interface Mount {
  /** Directory of the file system that is seen there; not `/` where only a part of it was bind-mounted. */
  readonly part: string;
  readonly mountPoint: string;
  /** Flags of this mount point, such as `nosuid`; a bind mount of it inherits them. */
  readonly flags: ReadonlySet<string>;
  /** Whether it is propagated from another mount namespace, as of a container's volume with HostToContainer. */
  readonly isSlave: boolean;
  readonly type: string;
  readonly source: string;
  /** Options of the file system, such as `size=16384k`. */
  readonly options: readonly string[];
}

/** Parses mountinfo; lines of another shape are left out. */
export function parseMountInfo(text: string): readonly Mount[] {
  return text.split("\n").flatMap((line) => {
    const [mount = "", fileSystem = ""] = line.split(" - ");
    const [, , , part, mountPoint, flags, ...propagation] = mount.split(" ");
    const [type, source, options] = fileSystem.split(" ");
    if (part === undefined || mountPoint === undefined || flags === undefined || type === undefined)
      return [];
    return [
      {
        part: withoutEscapes(part),
        mountPoint: withoutEscapes(mountPoint),
        flags: new Set(flags.split(",")),
        isSlave: propagation.some((field) => field.startsWith("master:")),
        type,
        source: withoutEscapes(source ?? ""),
        options: (options ?? "").split(","),
      },
    ];
  });
}

/** The mount that a path (real, without links) lies on: the deepest, and of several on top of each other the last. */
export function mountOf(path: string, mounts: readonly Mount[]): Mount | undefined {
  let found: Mount | undefined;
  for (const mount of mounts) {
    const below = mount.mountPoint === "/" ? "/" : `${mount.mountPoint}/`;
    if (path !== mount.mountPoint && !path.startsWith(below)) continue;
    if (found === undefined || mount.mountPoint.length >= found.mountPoint.length) found = mount;
  }
  return found;
}

/** Blanks and the like are octal, `\040`. */
function withoutEscapes(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}
