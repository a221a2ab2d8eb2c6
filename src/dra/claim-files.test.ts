import { fstatSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { ProgramEnd } from "../allocation/selinux-label.ts";
import { labelMetadata } from "./claim-files.ts";

it("gives the directory of metadata the pool's label, which files in it inherit, before the first file", async () => {
  const top = mkdtempSync(join(tmpdir(), "claim-files-"));
  const fileSystems = join(top, "filesystems");
  writeFileSync(fileSystems, "nodev\tselinuxfs\n");
  const label = "system_u:object_r:container_file_t:s0";
  const labelled: (number | string)[] = [];
  const run = async (
    _: string,
    args: readonly string[],
    descriptors: readonly number[],
  ): Promise<ProgramEnd> => {
    labelled.push(...args.slice(-2), ...descriptors.map((one) => fstatSync(one).ino));
    return { code: 0, stderr: "" };
  };
  const pluginDirectory = join(top, "plugins/driver");
  await labelMetadata({ pluginDirectory }, label, { fileSystems, run });
  const { ino } = statSync(join(pluginDirectory, "dra-device-metadata"));
  expect(labelled).toEqual([label, "/proc/self/fd/3", ino]);
  rmSync(top, { recursive: true });
});
