import { spawn } from "node:child_process";
import { mkdir, readdir, readFile, realpath } from "node:fs/promises";
import { ROOT_FLAGS, ROOT_SOURCE, refuseLink } from "../../allocation/directory/check-root.ts";
import { type Mount, mountOf, parseMountInfo } from "../../allocation/directory/mount-info.ts";
import type { DaemonConfig } from "../../config/schema.ts";
import { Failure, systemCode } from "../../failure/failure.ts";

/** What is mounted where, and how it is looked up. */
export interface MountRootOptions {
  readonly root: string;
  readonly bounds: Pick<DaemonConfig["rootFileSystem"], "sizeMiB" | "inodes">;
  /** Default `/proc/self/mountinfo`. */
  readonly mountInfo?: string;
  /** Runs util-linux' mount. @throws what it says */
  readonly runMount?: (args: readonly string[]) => Promise<void>;
}

/** What was done. */
export type Mounted = "mounted" | "remounted" | "as it was";

/**
 * Makes the root a tmpfs of its own with the flags that keep pods apart, bounded in bytes and inodes. Whatever lies in
 * a root that is ours already stays, only flags and bounds are set anew. Run as root, in the mount namespace of the
 * node or in one that propagates to it: Node has no mount(2), so mount(8) does it.
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
    what: `mount succeeded, but the kernel shows ${[...(after?.flags ?? [])].join(",")} instead of ${wanted}`,
    where: path,
    fix: "nosymfollow needs Linux 5.10 and util-linux 2.38",
  });
}

/**
 * The file system that is mounted exactly there. A part of one is none: in a container whose volume is the root's
 * directory, that is how the node's empty directory looks.
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
function bounds({ bounds: { sizeMiB, inodes } }: MountRootOptions): readonly string[] {
  return [`size=${sizeMiB * 1024}k`, `nr_inodes=${inodes}`];
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

function runMount(args: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn("mount", args, {
      stdio: ["ignore", "ignore", "pipe"],
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" },
    });
    let words = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      words = (words + text).slice(0, 2000);
    });
    child.once("error", (cause) => {
      const isMissing = systemCode(cause) === "ENOENT";
      const what = isMissing ? "mount is not installed" : "mount cannot be run";
      reject(new Failure({ code: "part-missing", what, fix: "put util-linux into the image", cause }));
    });
    child.once("close", (code) => {
      if (code === 0) return resolve();
      const what = `mount ${args.join(" ")} failed with ${code}: ${words.trim()}`;
      const fix = "it needs CAP_SYS_ADMIN (a privileged init container)";
      return reject(new Failure({ code: "root-busy", what, fix }));
    });
  });
}
