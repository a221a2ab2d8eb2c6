import { execFileSync } from "node:child_process";
import { appendFile, mkdtemp, rename, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { vhostUserDeviceInfo } from "./device-info.ts";
import { deviceInfoProblem, writeDeviceInfo } from "./device-info-file.ts";

const INFO = vhostUserDeviceInfo("/var/run/vhostuser/sockets/net1/vhost.sock");
const OTHER = vhostUserDeviceInfo("/var/run/vhostuser/sockets/net2/vhost.sock");

let directory: string;
let file: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-info-"));
  file = join(directory, "dp", "v-s-device.json");
  writeDeviceInfo(file, INFO);
});
afterEach(() => rm(directory, { recursive: true }));

describe("a device-info file", () => {
  it("is in order as it was written", () => {
    expect(deviceInfoProblem(file, INFO)).toBeUndefined();
  });

  it.each([
    ["is gone", () => rm(file), "it is gone"],
    ["is of another socket", async () => writeDeviceInfo(file, OTHER), "it says something else"],
    ["is longer", () => appendFile(file, "{}"), "it says something else"],
    ["is larger than could be read", () => truncate(file, 2 ** 40), "it says something else"],
    [
      "is a link to one in order",
      async () => {
        await rename(file, `${file}.there`);
        await symlink(`${file}.there`, file);
      },
      "it is a link",
    ],
    [
      "is a FIFO that nobody writes to",
      async () => {
        await rm(file);
        execFileSync("mkfifo", [file]);
      },
      "it is not a file",
    ],
  ])("that %s is not, and is as it was once it is written again", async (_what, change, problem) => {
    await change();
    expect(deviceInfoProblem(file, INFO)).toBe(problem);
    writeDeviceInfo(file, INFO);
    expect(deviceInfoProblem(file, INFO)).toBeUndefined();
  });

  it("that cannot be opened says why", async () => {
    await rm(join(directory, "dp"), { recursive: true });
    await writeFile(join(directory, "dp"), "");
    expect(deviceInfoProblem(file, INFO)).toBe("it cannot be read: ENOTDIR");
  });
});
