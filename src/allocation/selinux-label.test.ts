import { spawnSync } from "node:child_process";
import { type FileHandle, mkdir, mkdtemp, open, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { newAllocationId } from "../names/allocation-id.ts";
import { isSelinuxLabel } from "../names/directory-ownership.ts";
import { setSelinuxLabel } from "./selinux-label.ts";
import { ensureSocketDirectories } from "./socket-directories.ts";

const LABEL = "system_u:object_r:container_file_t:s0";
let top: string;
/** Stands for a kernel with SELinux; without a policy, setting the attribute is all that it does. */
let fileSystems: string;
let handles: FileHandle[];

beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), "kvu-label-"));
  fileSystems = join(top, "filesystems");
  await writeFile(fileSystems, "nodev\tsysfs\nnodev\tselinuxfs\n\text4\n");
  handles = [];
});
afterEach(async () => {
  for (const handle of handles) await handle.close();
  await rm(top, { recursive: true });
});

async function opened(path: string): Promise<number> {
  const handle = await open(path);
  handles.push(handle);
  return handle.fd;
}

const labelOf = (path: string) => spawnSync("stat", ["-c", "%C", path], { encoding: "utf8" }).stdout.trim();

describe("the SELinux label", () => {
  it("is set by the real chcon on what the descriptors are, not on what their names became", async () => {
    const directory = join(top, "net1");
    const other = join(top, "other");
    for (const path of [directory, other]) await mkdir(path);
    const descriptors = [await opened(directory), await opened(other)];
    await rm(other, { recursive: true });
    const bystander = join(top, "bystander");
    await mkdir(bystander);
    await symlink(bystander, other);
    expect(await setSelinuxLabel(descriptors, LABEL, { fileSystems })).toBe("set");
    expect(labelOf(directory)).toBe(LABEL);
    expect(labelOf(bystander)).not.toBe(LABEL);
  });

  it("asks chcon for inherited descriptors by number", async () => {
    const calls: unknown[] = [];
    const run = async (...call: unknown[]) => {
      calls.push(call);
      return { code: 0, stderr: "" };
    };
    await setSelinuxLabel([20, 21], LABEL, { fileSystems, run });
    const args = ["--dereference", "--", LABEL, "/proc/self/fd/3", "/proc/self/fd/4"];
    expect(calls).toEqual([["chcon", args, [20, 21]]]);
  });

  it("is unsupported on a file system without labels, by the real chcon", async () => {
    const descriptor = await opened("/proc/self/fdinfo");
    expect(await setSelinuxLabel([descriptor], LABEL, { fileSystems })).toBe("unsupported");
  });

  it("is unsupported on a kernel without SELinux, where nothing is run", async () => {
    await writeFile(fileSystems, "nodev\tsysfs\n");
    const run = () => Promise.reject(new Error("was run"));
    expect(await setSelinuxLabel([3], LABEL, { fileSystems, run })).toBe("unsupported");
  });

  it("that the policy refuses is an error with the tool's words", async () => {
    const run = async () => ({ code: 1, stderr: "chcon: failed to change context: Permission denied\n" });
    await expect(setSelinuxLabel([3], LABEL, { fileSystems, run })).rejects.toMatchObject({
      code: "label-refused",
      what: expect.stringContaining("Permission denied"),
    });
  });

  it("without chcon is an error that names the package", async () => {
    const run = () => Promise.reject(Object.assign(new Error("spawn"), { code: "ENOENT" }));
    await expect(setSelinuxLabel([3], LABEL, { fileSystems, run })).rejects.toThrow(/coreutils/);
  });

  it("is set once for each directory, also for one that a crash left unfinished, and the allocation's too", async () => {
    const allocationId = newAllocationId();
    const ownership = { owner: 107, group: 107, mode: 0o2770, selinuxLabel: LABEL };
    let fails = true;
    let calls = 0;
    const setLabel = async () => {
      calls += 1;
      if (fails && calls === 2) throw new Error("killed here");
      return "set" as const;
    };
    const wanted = { root: top, allocationId, names: ["net1"], ownership };
    await expect(ensureSocketDirectories(wanted, setLabel)).rejects.toThrow("killed here");
    fails = false;
    await ensureSocketDirectories(wanted, setLabel);
    expect(calls).toBe(3);
    await ensureSocketDirectories(wanted, setLabel);
    expect(calls).toBe(3);
  });

  it.each([
    [LABEL, true],
    ["system_u:object_r:container_file_t:s0:c1,c2", true],
    ["system_u:object_r:container_file_t", false],
    ["system_u:object_r:container_file_t:", false],
    ["a b:c:d:s0", false],
    ["--reference=/etc/shadow:b:c:s0", false],
    ["", false],
  ])("%j has the shape of one: %s", (text, expected) => {
    expect(isSelinuxLabel(text)).toBe(expected);
  });
});
