import { execFile } from "node:child_process";
import { mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { totalmem } from "node:os";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { checkRoot, mountOf, parseMountInfo, ROOT_FLAGS } from "../../src/allocation/root-mount.ts";
import { mountRoot } from "../../src/node-setup/mount-root/mount-root.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";

const PAGE = 4096;
const SIZE = { sizeMiB: 4 };
let run: LabRun;
let root: string;
let roots = 0;

beforeAll(async () => {
  run = await openLabRun();
});
afterAll(() => run?.close());
beforeEach(() => {
  const path = join(run.directory, `root-${roots++}`);
  root = path;
  const trace = run.journal.note({ kind: "mount", path });
  run.cleanup.defer(`unmount ${path}`, async () => {
    while ((await mountAt(path)) !== undefined) await runProgram("umount", ["-l", path]);
    run.journal.strike(trace);
  });
});

const mountAt = async (path: string) => {
  const mount = mountOf(path, parseMountInfo(await readFile("/proc/self/mountinfo", "utf8")));
  return mount?.mountPoint === path ? mount : undefined;
};
const check = () => checkRoot({ root, allowInsecure: false });

describe("the privileged step", () => {
  it("mounts what the daemon's check wants, with the bytes that were asked for and no count of inodes", async () => {
    await expect(check()).rejects.toMatchObject({ code: "root-missing" });
    expect(await mountRoot({ root, ...SIZE })).toBe("mounted");
    const mount = await mountAt(root);
    expect([...(mount?.flags ?? [])]).toEqual(expect.arrayContaining([...ROOT_FLAGS]));
    expect(mount?.options).toEqual(expect.arrayContaining(["size=4096k", "nr_inodes=0"]));
    expect(await check()).toEqual([]);
  });

  it("repeated changes nothing", async () => {
    await mountRoot({ root, ...SIZE });
    // Others mount on this machine meanwhile.
    const mounts = async () => {
      const all = await readFile("/proc/self/mountinfo", "utf8");
      return all.split("\n").filter((line) => line.includes(run.directory));
    };
    const before = await mounts();
    expect(before).not.toEqual([]);
    const runMount = () => Promise.reject(new Error("was run"));
    expect(await mountRoot({ root, ...SIZE, runMount })).toBe("as it was");
    expect(await mounts()).toEqual(before);
  });

  it("gives new bounds and missing flags to a root in use, whose content stays", async () => {
    await mkdir(root);
    await runProgram("mount", [
      "-t",
      "tmpfs",
      "-o",
      "mode=0755,size=1m,nr_inodes=100,nosuid",
      "vhostuser",
      root,
    ]);
    await writeFile(join(root, "kept"), "kept");
    await expect(check()).rejects.toThrow(/lacks nosymfollow,nodev,noexec; it counts inodes/);
    expect(await mountRoot({ root, ...SIZE })).toBe("remounted");
    expect(await readFile(join(root, "kept"), "utf8")).toBe("kept");
    expect((await mountAt(root))?.options).toContain("nr_inodes=0");
    expect(await check()).toEqual([]);
  });

  it("shows its bound also where that is half of the memory, which the kernel hides", async () => {
    const sizeMiB = Math.floor(totalmem() / 2 / PAGE) * (PAGE / 2 ** 20);
    expect(await mountRoot({ root, sizeMiB })).toBe("mounted");
    expect(await mountRoot({ root, sizeMiB })).toBe("as it was");
    expect(await check()).toEqual([]);
  });

  it("mounts over the empty directories that a runtime makes for pods while the root is away, and over nothing else", async () => {
    const made = join(root, "0123456789abcdef");
    await mkdir(made, { recursive: true });
    await writeFile(join(made, "file"), "");
    await expect(mountRoot({ root, ...SIZE })).rejects.toMatchObject({ code: "root-busy" });
    await rm(join(made, "file"));
    expect(await mountRoot({ root, ...SIZE })).toBe("mounted");
    expect(await check()).toEqual([]);
  });

  it("finds its mount behind a link in the root's path, as /var/run is one", async () => {
    await mountRoot({ root, ...SIZE });
    const link = join(run.directory, "link-above");
    await symlink(run.directory, link);
    expect(await mountRoot({ root: join(link, basename(root)), ...SIZE })).toBe("as it was");
  });

  it("refuses a root that is a link itself, which the daemon would, and mounts nothing", async () => {
    await mkdir(`${root}-target`);
    await symlink(`${root}-target`, root);
    await expect(mountRoot({ root, ...SIZE })).rejects.toMatchObject({
      code: "invalid-config",
      message: expect.stringContaining(`${root}-target`),
    });
    expect(await mountAt(`${root}-target`)).toBeUndefined();
  });

  it("refuses a directory with something in it, and names it", async () => {
    await mkdir(join(root, "k3j5h2g4f6d8s9a0", "net1"), { recursive: true });
    await expect(mountRoot({ root, ...SIZE })).rejects.toMatchObject({
      code: "root-busy",
      message: expect.stringContaining("k3j5h2g4f6d8s9a0"),
    });
    expect(await mountAt(root)).toBeUndefined();
  });

  it("refuses another file system in its place and leaves that as it is", async () => {
    await mkdir(root);
    await runProgram("mount", ["-t", "tmpfs", "-o", "size=1m", "another", root]);
    await expect(mountRoot({ root, ...SIZE })).rejects.toThrow(/tmpfs from "another"/);
    expect((await mountAt(root))?.flags.has("nosymfollow")).toBe(false);
  });

  it("says what mount said when it fails", async () => {
    await mountRoot({ root, ...SIZE });
    await writeFile(join(root, "filler"), Buffer.alloc(2 << 20));
    await expect(mountRoot({ root, sizeMiB: 1 })).rejects.toThrow(/mount -o remount/);
  });

  it("as a program in a container's mount namespace reaches the node's", async () => {
    await mkdir(root);
    const container = `${root}-container`;
    await mkdir(container);
    const seen = join(container, "root");
    const config = join(run.directory, "config.json");
    const pools = { p: { resource: "a.b/c", capacity: 1, dataplane: { type: "ovs-dpdk", bridge: "b" } } };
    await writeFile(config, JSON.stringify({ node: "n", root: seen, rootFileSystem: SIZE, pools }));
    // A node, whose mounts are shared, as systemd makes them; and twice a container that has the root's directory as a
    // volume with mountPropagation Bidirectional: its own mounts are private, but the volume is the node's peer.
    const script = `set -e
      mount --make-rshared /
      start='mount -t tmpfs container "$3"; mount --make-private "$3"; mkdir "$3/root"; mount --rbind "$4" "$3/root"
        "$0" "$1" --config "$2"'
      unshare --mount --propagation unchanged sh -ec "$start" "$@"
      unshare --mount --propagation unchanged sh -ec "$start" "$@"
      cat /proc/self/mountinfo`;
    const program = join(import.meta.dirname, "../../src/node-setup/mount-root/main.ts");
    const { stdout } = await promisify(execFile)("unshare", [
      ...["--mount", "--propagation", "private", "sh", "-c", script, "sh"],
      ...[process.execPath, program, config, container, root],
    ]);
    expect(stdout).toContain(`${seen} is mounted\n`);
    expect(stdout).toContain(`${seen} is as it was\n`);
    expect(mountOf(root, parseMountInfo(stdout))).toMatchObject({ mountPoint: root, source: "vhostuser" });
  });
});
