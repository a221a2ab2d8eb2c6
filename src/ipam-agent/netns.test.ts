import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { hasNetns, hasOtherNetns, listNetns } from "./netns.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-netns-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

describe("a network namespace", () => {
  it("is there while its file is, by its path in /run or /var/run", async () => {
    await writeFile(join(directory, "cni-1"), "");
    expect(await hasNetns("/run/netns/cni-1", directory)).toBe(true);
    expect(await hasNetns("/var/run/netns/cni-1", directory)).toBe(true);
    expect(await hasNetns("/var/run/netns/cni-2", directory)).toBe(false);
  });

  it.each(["/proc/42/ns/net", "/run/netns/../x", "/run/netns", "", "cni-1"])(
    "cannot be looked for at %j, and so counts as there",
    async (path) => {
      await expect(hasNetns(path, directory)).rejects.toMatchObject({ code: "part-missing" });
    },
  );

  it("is listed by its path, but for the agent's own", async () => {
    await writeFile(join(directory, "cni-1"), "");
    await symlink("/proc/self/ns/net", join(directory, "own"));
    expect(await listNetns(directory)).toEqual(["/run/netns/cni-1"]);
    await expect(listNetns(join(directory, "gone"))).rejects.toMatchObject({ code: "part-missing" });
  });

  it("is no other one where it is the agent's own", async () => {
    await writeFile(join(directory, "cni-1"), "");
    await symlink("/proc/self/ns/net", join(directory, "own"));
    expect(await hasOtherNetns("/var/run/netns/cni-1", directory)).toBe(true);
    expect(await hasOtherNetns("/var/run/netns/own", directory)).toBe(false);
    expect(await hasOtherNetns("/var/run/netns/cni-2", directory)).toBe(false);
  });

  it("cannot be looked for where the directory is not mounted", async () => {
    const missing = hasNetns("/run/netns/cni-1", join(directory, "gone"));
    await expect(missing).rejects.toMatchObject({ code: "part-missing" });
  });
});
