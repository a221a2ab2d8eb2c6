import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { checkRoot, followRoot } from "./root-mount.ts";

let root: string;
let mountInfo: string;
beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), "kvu-check-")));
  mountInfo = join(root, "mountinfo");
});
afterEach(() => rm(root, { recursive: true }));

const SAFE = "rw,nosuid,nodev,noexec,relatime,nosymfollow";
const line = (mountPoint: string, flags: string, options = "size=16384k,nr_inodes=0") =>
  `44 27 0:40 / ${mountPoint} ${flags} shared:7 - tmpfs vhostuser rw,${options}\n`;
const check = async (text: string, allowInsecure = false) => {
  await writeFile(mountInfo, `21 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n${text}`);
  return checkRoot({ root, allowInsecure, mountInfo });
};

describe("the root at the daemon's start", () => {
  it("is fine as a file system of its own with all flags", async () => {
    expect(await check(line(root, SAFE))).toEqual([]);
  });

  it.each(["nosymfollow", "nosuid", "nodev", "noexec"])(
    "is refused without %s, with the cure",
    async (flag) => {
      const flags = SAFE.split(",").filter((other) => other !== flag);
      await expect(check(line(root, flags.join(",")))).rejects.toMatchObject({
        code: "root-insecure",
        message: expect.stringMatching(
          new RegExp(`lacks ${flag} .*mount -o remount,nosymfollow,nosuid,nodev,noexec`),
        ),
      });
    },
  );

  it.each([
    ["size=16384k,nr_inodes=131072", /it counts inodes/],
    ["size=16384k", /it counts inodes/],
    ["nr_inodes=0", /nothing bounds its bytes/],
  ])("is refused with %s, with the cure", async (options, problem) => {
    await expect(check(line(root, SAFE, options))).rejects.toThrow(problem);
    await expect(check(line(root, SAFE, options))).rejects.toThrow(/mount -o remount,.*nr_inodes=0,size=16m/);
  });

  it("is refused as a plain directory, even on a file system with all flags", async () => {
    await expect(check(line(root.slice(0, root.lastIndexOf("/")), SAFE))).rejects.toThrow(
      /not a file system of its own/,
    );
    await expect(check("")).rejects.toThrow(/run dist\/mount-root\/main\.mjs/);
  });

  it("is judged by the mount on top of another one", async () => {
    await expect(check(line(root, SAFE) + line(root, "rw"))).rejects.toThrow(/lacks nosymfollow/);
    expect(await check(line(root, "rw") + line(root, SAFE))).toEqual([]);
  });

  it("may be insecure where the configuration allows it, and what is wrong is returned", async () => {
    expect(await check("", true)).toEqual([
      "it is not a file system of its own, so nothing bounds it",
      "its mount lacks nosymfollow,nosuid,nodev,noexec",
    ]);
  });

  it("that is missing is an error that names the step which makes it", async () => {
    await expect(checkRoot({ root: join(root, "absent"), allowInsecure: true })).rejects.toMatchObject({
      code: "root-missing",
      message: expect.stringContaining("dist/mount-root/main.mjs"),
    });
  });

  it("may not be a link itself, whatever the configuration says, and the error names what to set instead", async () => {
    const link = join(root, "link");
    await mkdir(join(root, "real"));
    await symlink("real", link);
    const checked = checkRoot({ root: link, allowInsecure: true });
    await expect(checked).rejects.toMatchObject({
      code: "invalid-config",
      message: expect.stringContaining(join(root, "real")),
    });
    await rm(join(root, "real"), { recursive: true });
    await expect(checkRoot({ root: link, allowInsecure: true })).rejects.toThrow(/symbolic link/);
  });

  it("may lie below a link, as /var/run is one", async () => {
    await mkdir(join(root, "run/vhu"), { recursive: true });
    await symlink("run", join(root, "link"));
    await writeFile(mountInfo, line(join(root, "run/vhu"), SAFE));
    expect(await checkRoot({ root: join(root, "link/vhu"), allowInsecure: false, mountInfo })).toEqual([]);
  });

  it("has blanks in its path read right", async () => {
    expect(await check(line(root.replace("kvu", "\\153vu"), SAFE))).toEqual([]);
  });
});

describe("the root of a running daemon", () => {
  const slave = (text: string) => text.replace("shared:7", "master:7");
  const follow = async (text: string) => {
    await writeFile(mountInfo, text);
    return followRoot({ root, allowInsecure: false, mountInfo });
  };

  it("is fine while it is the node's, also one that was mounted over it", async () => {
    const problem = await follow(slave(line(root, SAFE)));
    expect(await problem()).toBeUndefined();
    await writeFile(mountInfo, slave(line(root, SAFE)) + slave(line(root, SAFE)).replace("0:40", "0:41"));
    expect(await problem()).toBeUndefined();
  });

  it("is the old one as soon as the node's is unmounted, which leaves the container's without a master", async () => {
    const problem = await follow(slave(line(root, SAFE)));
    await writeFile(mountInfo, line(root, SAFE).replace("shared:7 ", ""));
    expect(await problem()).toMatch(/was unmounted on the node/);
  });

  it("is checked as at the start: flags, and whether it is mounted at all", async () => {
    const problem = await follow(line(root, SAFE));
    await writeFile(mountInfo, line(root, "rw"));
    expect(await problem()).toMatch(/lacks nosymfollow/);
    await writeFile(mountInfo, "");
    expect(await problem()).toMatch(/not a file system of its own/);
  });
});
