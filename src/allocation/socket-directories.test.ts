import { spawnSync } from "node:child_process";
import {
  chmod,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { newAllocationId } from "../names/allocation-id.ts";
import { systemClock } from "../sync/clock.ts";
import { socketPath } from "./layout.ts";
import { openDirectory } from "./open-directory.ts";
import { isSetAside, removeAllocationDirectory, removeSetAside } from "./set-aside.ts";
import { ensureSocketDirectories, listAllocationDirectories } from "./socket-directories.ts";

const QEMU = { owner: 107, group: 107, mode: 0o2770 };
let top: string;
let root: string;
let id: string;

beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), "kvu-dirs-"));
  await chmod(top, 0o755);
  root = join(top, "root");
  await mkdir(root);
  id = newAllocationId();
});
afterEach(() => rm(top, { recursive: true }));

const ensure = (...names: string[]) =>
  ensureSocketDirectories({ root, allocationId: id, names, ownership: QEMU });

async function ownershipOf(path: string): Promise<string> {
  const { uid, gid, mode } = await lstat(path);
  return `${uid}:${gid} ${(mode & 0o7777).toString(8)}`;
}

/** Runs a shell command as another user; the test itself runs as root. */
function asUser(uid: number, command: string): { status: number | null; output: string } {
  const run = spawnSync("sh", ["-c", command], { uid, gid: uid, encoding: "utf8" });
  return { status: run.status, output: run.stdout + run.stderr };
}

describe("socket directories", () => {
  it("give the pod's user its own directories and root the one above", async () => {
    await ensure("sockets-00000", "net1");
    expect(await ownershipOf(join(root, id))).toBe("0:0 755");
    expect(await ownershipOf(join(root, id, "net1"))).toBe("107:107 2770");
    expect(await ownershipOf(join(root, id, "sockets-00000"))).toBe("107:107 2770");
  });

  it("are repaired whatever the umask and whatever was changed, and keep their content", async () => {
    const before = process.umask(0o077);
    try {
      await ensure("net1");
      await writeFile(join(root, id, "net1", "vhost.sock"), "kept");
      await chmod(join(root, id, "net1"), 0o777);
      await chmod(join(root, id), 0o700);
      await ensure("net1");
    } finally {
      process.umask(before);
    }
    expect(await ownershipOf(join(root, id))).toBe("0:0 755");
    expect(await ownershipOf(join(root, id, "net1"))).toBe("107:107 2770");
    expect(await readFile(join(root, id, "net1", "vhost.sock"), "utf8")).toBe("kept");
  });

  it.each([0o700, 0o750, 0o770, 0o2700])(
    "of mode %o are finished, and again after a crash half-way",
    async (mode) => {
      const ownership = { ...QEMU, mode };
      await ensureSocketDirectories({ root, allocationId: id, names: ["net1"], ownership });
      expect(await ownershipOf(join(root, id, "net1"))).toBe(`107:107 ${mode.toString(8)}`);
      await rm(join(root, id, "net1"), { recursive: true });
      // What a kill between mkdir and chown leaves.
      await mkdir(join(root, id, "net1"), { mode: 0o100 });
      await ensureSocketDirectories({ root, allocationId: id, names: ["net1"], ownership });
      expect(await ownershipOf(join(root, id, "net1"))).toBe(`107:107 ${mode.toString(8)}`);
    },
  );

  it("let uid 107 make its socket and nothing beside its directory", async () => {
    await ensure("net1");
    expect(asUser(107, `umask 002; touch ${root}/${id}/net1/vhost.sock`).status).toBe(0);
    expect(await ownershipOf(join(root, id, "net1", "vhost.sock"))).toBe("107:107 664");
    expect(asUser(107, `touch ${root}/${id}/other`).output).toMatch(/Permission denied/);
    expect(asUser(107, `mv ${root}/${id}/net1 ${root}/${id}/net2`).status).not.toBe(0);
  });

  it("keep another user out", async () => {
    await ensure("net1");
    expect(asUser(1234, `ls ${root}/${id}/net1`).output).toMatch(/Permission denied/);
  });

  it("replace a link in the place of a directory without touching what it points to", async () => {
    const target = join(top, "target");
    await mkdir(target, { mode: 0o700 });
    await mkdir(join(root, id));
    await symlink(target, join(root, id, "net1"));
    await ensure("net1");
    expect((await lstat(join(root, id, "net1"))).isDirectory()).toBe(true);
    expect(await ownershipOf(target)).toBe("0:0 700");
  });

  it.each(["../escape", "a/b", "", ".", "..", "x\0y"])("refuse the name %j", async (name) => {
    await expect(ensure(name)).rejects.toThrow(/cannot be a name/);
    expect(await stat(join(top, "escape")).catch(() => "absent")).toBe("absent");
  });

  it("refuse an allocation's directory that is a link to elsewhere", async () => {
    const target = join(top, "target");
    await mkdir(target);
    await symlink(target, join(root, id));
    await ensure("net1");
    expect(await stat(join(target, "net1")).catch(() => "absent")).toBe("absent");
  });
});

/** Sets the allocation aside and removes what was. */
async function remove(signal = new AbortController().signal): Promise<void> {
  await removeAllocationDirectory(root, id);
  using directory = openDirectory(root);
  for (const name of (await readdir(root)).filter(isSetAside)) {
    expect(
      await removeSetAside(directory, name, { clock: { ...systemClock, monotonic: () => 0 }, signal }),
    ).toBe(true);
  }
}

describe("removing an allocation", () => {
  it("takes everything a pod left, and no target of a link in it", async () => {
    const secret = join(top, "secret");
    await mkdir(secret);
    await writeFile(join(secret, "file"), "kept");
    await ensure("net1");
    await symlink(secret, join(root, id, "net1", "directory-link"));
    await symlink(join(secret, "file"), join(root, id, "net1", "file-link"));
    await symlink("/nowhere", join(root, id, "net1", "dangling"));
    await mkdir(join(root, id, "net1", "deep/er/still"), { recursive: true, mode: 0o000 });
    await writeFile(join(root, id, "net1", "deep/er/still/file"), "");
    await remove();
    expect(await listAllocationDirectories(root)).toEqual([]);
    expect(await readFile(join(secret, "file"), "utf8")).toBe("kept");
  });

  it("takes a tree that is deeper than there are descriptors, with wide ones beside it", async () => {
    await ensure("net1");
    const base = join(root, id, "net1");
    // Each rename puts the tree so far one level deeper: no path ever gets long.
    await mkdir(join(base, "t"));
    for (let depth = 0; depth < 3000; depth++) {
      await mkdir(join(base, "n"));
      await rename(join(base, "t"), join(base, "n", "t"));
      await rename(join(base, "n"), join(base, "t"));
    }
    for (let width = 0; width < 200; width++) await mkdir(join(base, `w${width}`, "x"), { recursive: true });
    const descriptors = async () => (await readdir("/proc/self/fd")).length;
    const before = await descriptors();
    let most = 0;
    const watch = setInterval(async () => {
      most = Math.max(most, await descriptors());
    }, 5);
    await remove();
    clearInterval(watch);
    expect(await listAllocationDirectories(root)).toEqual([]);
    expect(most).toBeLessThan(before + 20);
  });

  it("takes entries whose names are no UTF-8, in any depth", async () => {
    await ensure("net1");
    const odd = (directory: Buffer) =>
      Buffer.concat([directory, Buffer.from("/"), Buffer.from([0xff, 0xc3])]);
    const directory = odd(Buffer.from(join(root, id, "net1")));
    await mkdir(directory);
    await mkdir(odd(directory));
    await writeFile(odd(odd(directory)), "");
    await writeFile(Buffer.concat([directory, Buffer.from([0x80])]), "");
    await remove();
    expect(await readdir(root)).toEqual([]);
  });

  it("is done when it is gone already", async () => {
    await remove();
  });

  it.each(["..", "", "not-an-id", "../../etc/passwd"])("refuses %j", async (name) => {
    await expect(removeAllocationDirectory(root, name)).rejects.toThrow(/not an allocation id/);
  });

  it("does not list what does not look like an allocation", async () => {
    await ensure("net1");
    await mkdir(join(root, "lost+found"));
    await writeFile(join(root, "aaaaaaaaaaaaaaaa"), "");
    expect(await listAllocationDirectories(root)).toEqual([id]);
  });
});

describe("socket paths", () => {
  it("have at most 107 bytes", () => {
    const directory = `/${"d".repeat(107 - "/net1/vhost.sock".length - 1)}`;
    expect(Buffer.byteLength(socketPath(directory, "net1", "test"))).toBe(107);
    expect(() => socketPath(`${directory}d`, "net1", "pod ns/a")).toThrow(
      /108 bytes, 107 are allowed \(pod ns\/a\)/,
    );
  });
});
