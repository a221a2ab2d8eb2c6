import { mkdir, readdir } from "node:fs/promises";
import { totalmem } from "node:os";
import { join } from "node:path";
import {
  findRoot,
  type Mount,
  ROOT_FLAGS,
  ROOT_SOURCE,
  refuseLink,
  UNCOUNTED_INODES,
} from "../../allocation/root-mount.ts";
import { type ProgramEnd, runProgram } from "../../allocation/selinux-label.ts";
import type { DaemonConfig } from "../../config/schema.ts";
import { Failure, systemCode } from "../../failure/failure.ts";
import { isAllocationId } from "../../names/allocation-id.ts";

/** The largest page of our architectures. */
const PAGE_KIB = 64;

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
  const { path, mount: before } = await findMount(options);
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
  const { mount: after } = await findMount(options);
  if (after !== undefined && isAsWanted(after, options))
    return before === undefined ? "mounted" : "remounted";
  throw new Failure({
    code: "root-insecure",
    what: `mount succeeded, but the kernel shows ${[...(after?.flags ?? []), ...(after?.options ?? [])].join(",")} instead of ${wanted}`,
    where: path,
    fix: "nosymfollow needs Linux 5.10 and util-linux 2.38",
  });
}

async function findMount({ root, mountInfo }: MountRootOptions) {
  const { path, mount, isOwn } = await findRoot({ root, ...(mountInfo === undefined ? {} : { mountInfo }) });
  return { path, mount: isOwn ? mount : undefined };
}

function isAsWanted(mount: Mount, options: MountRootOptions): boolean {
  return (
    isOurs(mount) &&
    ROOT_FLAGS.every((flag) => mount.flags.has(flag)) &&
    bounds(options).every((bound) => mount.options.includes(bound))
  );
}

/** As the kernel shows them. Its default, half of the memory, it does not show: the root is a little smaller then. */
function bounds({ sizeMiB }: MountRootOptions): readonly string[] {
  const sizeKiB = sizeMiB * 1024;
  const isDefault = Math.abs(sizeKiB - totalmem() / 2048) < PAGE_KIB;
  return [`size=${isDefault ? sizeKiB - PAGE_KIB : sizeKiB}k`, UNCOUNTED_INODES];
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

/**
 * Empty directories of allocations are no content: a container runtime makes them for the mounts of pods that start
 * after the root was unmounted under a running daemon.
 */
async function refuseContent(path: string): Promise<void> {
  const isContent = async (name: string) =>
    !isAllocationId(name) || (await readdir(join(path, name)).catch(() => [name])).length > 0;
  const names: string[] = [];
  for (const name of await readdir(path)) if (await isContent(name)) names.push(name);
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
