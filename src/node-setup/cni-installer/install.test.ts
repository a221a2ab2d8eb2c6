import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { watch } from "node:fs";
import {
  chmod,
  copyFile,
  link,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rm,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { compileShim } from "../../../scripts/build/compile-shim.ts";
import { installExecutable, uninstallExecutable } from "./install.ts";

const MAIN = join(import.meta.dirname, "main.ts");
const NAME = "kube-vhostuser";
const IPAM = "kube-vhostuser-ipam";

let built: string;
let source: string;
beforeAll(async () => {
  built = await mkdtemp(join(tmpdir(), "kvu-installer-"));
  source = await compileShim({ output: join(built, NAME) });
  await compileShim({ executable: IPAM, output: join(built, IPAM) });
  // Others than root may read it, as in an image.
  await chmod(built, 0o755);
});
afterAll(() => rm(built, { recursive: true }));

let directory: string;
let target: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-cni-bin-"));
  target = join(directory, NAME);
});
afterEach(() => rm(directory, { recursive: true }));

/** What an earlier release's would be: runs, is ours, has other bytes. */
async function putOtherRelease(path = target): Promise<void> {
  await writeFile(path, Buffer.concat([await readFile(source), Buffer.from("earlier")]), { mode: 0o755 });
}

const install = () => installExecutable({ name: NAME, source, directory });

describe("the CNI installer", () => {
  it("puts the executable into the directory, executable for all users, whatever the umask", async () => {
    const before = process.umask(0o077);
    try {
      expect(await install()).toMatch(/kube-vhostuser is installed \(sha256 [0-9a-f]{16}\)$/);
    } finally {
      process.umask(before);
    }
    expect(await readdir(directory)).toEqual([NAME]);
    const { mode, uid } = await lstat(target);
    expect([mode & 0o7777, uid]).toEqual([0o755, process.geteuid?.()]);
    expect(await readFile(target)).toEqual(await readFile(source));
  });

  it("changes nothing the second time", async () => {
    await install();
    const { ino, ctimeNs } = await lstat(target, { bigint: true });
    expect(await install()).toBe(`${target} is there already`);
    expect(await lstat(target, { bigint: true })).toMatchObject({ ino, ctimeNs });
  });

  it("repairs a changed mode", async () => {
    await install();
    await chmod(target, 0o4777);
    await install();
    expect((await lstat(target)).mode & 0o7777).toBe(0o755);
  });

  it("replaces another release's executable, newer or older, while that is running", async () => {
    await putOtherRelease();
    // Waits for its standard input.
    const running = spawn(target, { stdio: ["pipe", "pipe", "inherit"], env: { CNI_COMMAND: "VERSION" } });
    await once(running, "spawn");
    expect(await install()).toContain(", instead of another release's (sha256 ");
    expect(await readFile(target)).toEqual(await readFile(source));
    running.stdin.end("{}");
    const [code] = await once(running, "close");
    expect(code).toBe(0);
  });

  it("replaces a link and leaves the link's target alone", async () => {
    const elsewhere = join(built, "elsewhere");
    await writeFile(elsewhere, "another's");
    await symlink(elsewhere, target);
    expect(await install()).toContain("instead of something that was no plain file");
    expect((await lstat(target)).isFile()).toBe(true);
    expect(await readFile(elsewhere, "utf8")).toBe("another's");
  });

  it("does not write into a file that has another name too", async () => {
    const other = join(directory, "bridge");
    await writeFile(other, "another plugin");
    await link(other, target);
    expect(await install()).toContain("instead of a file that was not ours");
    expect(await readFile(other, "utf8")).toBe("another plugin");
  });

  it("follows no link that has a leftover's name", async () => {
    const elsewhere = join(built, "elsewhere");
    await writeFile(elsewhere, "another's");
    await symlink(elsewhere, join(directory, ".kube-vhostuser-aaaaaaaaaaaa"));
    await install();
    expect(await readdir(directory)).toEqual([NAME]);
    expect(await readFile(elsewhere, "utf8")).toBe("another's");
  });

  it("may run several times at once", async () => {
    await Promise.all(Array.from({ length: 4 }, install));
    expect(await readdir(directory)).toEqual([NAME]);
    expect(await readFile(target)).toEqual(await readFile(source));
  });

  it("puts the IPAM agent's executable beside it where that is asked for, and removes that alone", async () => {
    await install();
    const run = (...args: readonly string[]) =>
      spawnSync(process.execPath, [MAIN, "--source", built, "--target", directory, ...args], {
        encoding: "utf8",
      });
    expect(run("--executable", IPAM)).toMatchObject({ stderr: "", status: 0 });
    expect((await readdir(directory)).sort()).toEqual([NAME, IPAM]);
    expect(await readFile(join(directory, IPAM))).toEqual(await readFile(join(built, IPAM)));
    expect(run("--executable", IPAM, "--uninstall")).toMatchObject({ stderr: "", status: 0 });
    expect(await readdir(directory)).toEqual([NAME]);
  });

  it("removes its executable, of whichever release, and nothing else", async () => {
    const plugin = join(directory, "bridge");
    await writeFile(plugin, "another plugin");
    await putOtherRelease();
    expect(await uninstallExecutable(directory, NAME)).toBe(`${target} is removed`);
    expect(await uninstallExecutable(directory, NAME)).toBe(`${target} is not there`);
    await writeFile(target, "#!/bin/sh\n");
    expect(await uninstallExecutable(directory, NAME)).toBe(`${target} is not ours and stays`);
    await rm(target);
    await symlink(source, target);
    expect(await uninstallExecutable(directory, NAME)).toBe(`${target} is not ours and stays`);
    expect(await readlink(target)).toBe(source);
    expect(await readdir(directory)).toEqual(["bridge", NAME]);
  });
});

describe("the CNI installer, killed", () => {
  // Each event is a step of it: the temporary file is made, written, given its mode, run, renamed.
  it.each([1, 2, 3, 4, 5, 6, 7, 8])(
    "at the %d. change of the directory leaves a whole file, and the next tidies up",
    async (change) => {
      await putOtherRelease();
      const [earlier, current] = [await readFile(target), await readFile(source)];
      const program = spawn(process.execPath, [MAIN, "--source", built, "--target", directory]);
      let seen = 0;
      const watcher = watch(directory, () => {
        if (++seen === change) program.kill("SIGKILL");
      });
      await once(program, "close");
      watcher.close();
      const left = await readFile(target);
      expect(left.equals(earlier) || left.equals(current)).toBe(true);
      expect((await lstat(target)).mode & 0o7777).toBe(0o755);
      await install();
      expect(await readdir(directory)).toEqual([NAME]);
      expect(await readFile(target)).toEqual(current);
    },
  );
});

/** Runs the program, with the directory mounted in a way of its own, in a mount namespace that ends with it. */
function runMounted(options: string, prepare = "true") {
  const script = `mount -t tmpfs -o ${options} tmpfs "$0" && ${prepare} && exec "$@"`;
  const program = [process.execPath, MAIN, "--source", built, "--target", directory];
  return spawnSync("unshare", ["--mount", "sh", "-ec", script, directory, ...program], { encoding: "utf8" });
}

describe("the CNI installer refuses", () => {
  it.each([
    ["a directory on a read-only file system", "ro", "mount it writable"],
    ["a full file system", "size=8k", "make room"],
    ["a directory on a file system with noexec", "noexec", "without noexec"],
  ])("%s, and says what to do", (_what, options, fix) => {
    const { status, stderr } = runMounted(options);
    expect(stderr).toContain("kube-vhostuser: cni-directory-unusable: ");
    expect(stderr).toContain(directory);
    expect(stderr).toContain(fix);
    expect(status).toBe(1);
  });

  it("a full file system, and keeps the executable that is there", () => {
    const { stdout, status } = runMounted(
      "size=64k",
      // It runs a second time after this.
      `cp /bin/true "$0/${NAME}" && ( "$@" || true ) && ls -A "$0" && cmp /bin/true "$0/${NAME}" && echo kept`,
    );
    expect(stdout).toContain(`${NAME}\nkept\n`);
    expect(status).toBe(1);
  });

  it("a directory of its own name in the directory", async () => {
    await mkdir(join(target, "in-the-way"), { recursive: true });
    await expect(install()).rejects.toMatchObject({
      code: "cni-directory-unusable",
      fix: expect.stringContaining("a directory has the executable's name"),
    });
    expect(await readdir(directory)).toEqual([NAME]);
  });

  it("a path that is missing or not a directory", async () => {
    const missing = { name: NAME, source, directory: join(directory, "bin") } as const;
    await expect(installExecutable(missing)).rejects.toMatchObject({ code: "cni-directory-unusable" });
    await writeFile(missing.directory, "");
    await expect(installExecutable(missing)).rejects.toThrow("this is not a directory");
  });

  it("to run as a user who may not write there, and names the one who may", async () => {
    await chmod(directory, 0o755);
    // Who may read everything, for Node and these sources may lie where only root comes in.
    const user = ["--reuid=107", "--regid=107", "--clear-groups"];
    const reader = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"];
    const program = [process.execPath, MAIN, "--source", built, "--target", directory];
    const { stderr, status } = spawnSync("setpriv", [...user, ...reader, ...program], { encoding: "utf8" });
    expect(stderr).toContain("runAsUser: 0");
    expect(status).toBe(1);
  });

  it("an executable for another processor, and a file that is not our executable", async () => {
    await expect(installExecutable({ name: NAME, source, directory, processor: "arm64" })).rejects.toThrow(
      "the CNI executable is for x64, this processor is arm64",
    );
    const foreign = join(built, "true");
    await copyFile("/bin/true", foreign);
    await expect(installExecutable({ name: NAME, source: join(built, IPAM), directory })).rejects.toThrow(
      "it is not the CNI executable",
    );
    await expect(installExecutable({ name: NAME, source: foreign, directory })).rejects.toThrow(
      "it is not the CNI executable",
    );
    await expect(installExecutable({ name: NAME, source: join(built, "gone"), directory })).rejects.toThrow(
      "is not there",
    );
    expect(await readdir(directory)).toEqual([]);
  });

  it("a command line that it does not know, with 2", () => {
    const { status, stderr } = spawnSync(process.execPath, [MAIN, "--force"], { encoding: "utf8" });
    expect(stderr).toContain("--force");
    expect(status).toBe(2);
  });
});
