import { mkdir, readdir, readFile, realpath } from "node:fs/promises";
import {
  type Mount,
  mountOf,
  parseMountInfo,
  ROOT_FLAGS,
  ROOT_SOURCE,
  refuseLink,
  UNCOUNTED_INODES,
} from "../../allocation/root-mount.ts";
import { type ProgramEnd, runProgram } from "../../allocation/selinux-label.ts";
import type { DaemonConfig } from "../../config/schema.ts";
import { Failure, systemCode } from "../../failure/failure.ts";

/** What is mounted where, and how it is looked up. */
export interface MountRootOptions {
  readonly root: string;
  readonly sizeMiB: DaemonConfig["rootFileSystem"]["sizeMiB"];
  /** Default `/proc/self/mountinfo`. */
  readonly mountInfo?: string;
  /** Runs util-linux' mount. @throws what it says */
  readonly runMount?: (args: readonly string[]) => Promise<void>;
}

/** What was done. */
export type Mounted = "mounted" | "remounted" | "as it was";

/**
 * Makes the root a tmpfs of its own with the flags that keep pods apart, bounded in bytes, with inodes not counted.
 * What is in a root that is ours already stays, only flags and bounds are set. Run as root, in the mount
 * namespace of the node or in one that propagates to it: Node has no mount(2), so mount(8) does it.
 * @throws Failure `invalid-config` where the root is a link, `root-busy` where something is there that is not ours,
 *   `part-missing`, `root-insecure`
 */
export async function mountRoot(options: MountRootOptions): Promise<Mounted> {
  await refuseLink(options.root);
  await mkdir(options.root, { recursive: true, mode: 0o755 });
  const path = await realpath(options.root);
  const before = await findMount(path, options);
  if (before !== undefined && isAsWanted(before, options)) return "as it was";
  const wanted = [...ROOT_FLAGS, "mode=0755", ...bounds(options)].join(",");
  const run = options.runMount ?? runMount;
  if (before === undefined) {
    await refuseContent(path);
    await run(["-t", "tmpfs", "-o", wanted, ROOT_SOURCE, path]);
  } else {
    refuseOther(before, path);
    await run(["-o", `remount,${wanted}`, path]);
  }
  const after = await findMount(path, options);
  if (after !== undefined && isAsWanted(after, options))
    return before === undefined ? "mounted" : "remounted";
  throw new Failure({
    code: "root-insecure",
    what: `mount succeeded, but the kernel shows ${[...(after?.flags ?? []), ...(after?.options ?? [])].join(",")} instead of ${wanted}`,
    where: path,
    fix: "nosymfollow needs Linux 5.10 and util-linux 2.38",
  });
}

/**
 * The file system that is mounted exactly there, whole: in a container whose volume is the root's directory, the node's
 * empty directory appears as a mount of a part.
 */
async function findMount(path: string, options: MountRootOptions): Promise<Mount | undefined> {
  const text = await readFile(options.mountInfo ?? "/proc/self/mountinfo", "utf8");
  const mount = mountOf(path, parseMountInfo(text));
  return mount?.mountPoint === path && mount.part === "/" ? mount : undefined;
}

function isAsWanted(mount: Mount, options: MountRootOptions): boolean {
  return (
    isOurs(mount) &&
    ROOT_FLAGS.every((flag) => mount.flags.has(flag)) &&
    bounds(options).every((bound) => mount.options.includes(bound))
  );
}

/** As the kernel shows them. */
function bounds({ sizeMiB }: MountRootOptions): readonly string[] {
  return [`size=${sizeMiB * 1024}k`, UNCOUNTED_INODES];
}

function isOurs(mount: Mount): boolean {
  return mount.type === "tmpfs" && mount.source === ROOT_SOURCE;
}

function refuseOther(mount: Mount, path: string): void {
  if (isOurs(mount)) return;
  throw new Failure({
    code: "root-busy",
    what: `another file system is mounted there: ${mount.type} from ${JSON.stringify(mount.source)}`,
    where: path,
    fix: "unmount it, or choose another root",
  });
}

async function refuseContent(path: string): Promise<void> {
  const names = await readdir(path);
  if (names.length === 0) return;
  throw new Failure({
    code: "root-busy",
    what: `the directory is not empty, and a mount would hide what is in it: ${names.slice(0, 5).join(", ")}`,
    where: path,
    fix: "see what it is and move it away (allocations of a daemon that ran without this step: drain the node first)",
  });
}

async function runMount(args: readonly string[]): Promise<void> {
  let end: ProgramEnd;
  try {
    end = await runProgram("mount", args, []);
  } catch (cause) {
    const what = systemCode(cause) === "ENOENT" ? "mount is not installed" : "mount cannot be run";
    throw new Failure({ code: "part-missing", what, fix: "put util-linux into the image", cause });
  }
  if (end.code === 0) return;
  throw new Failure({
    code: "root-busy",
    what: `mount ${args.join(" ")} failed with ${end.code}: ${end.stderr.trim()}`,
    fix: "it needs CAP_SYS_ADMIN (a privileged init container)",
  });
}
