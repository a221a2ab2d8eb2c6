import { execFileSync } from "node:child_process";
import { appendFile, mkdir, mkdtemp, rename, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  checkCniFile,
  deviceInfoProblem,
  removeDeviceInfo,
  vhostUserDeviceInfo,
  vhostUserDeviceInfoSchema,
  writeDeviceInfo,
} from "./device-info.ts";

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

describe("the path of a device-info file for a CNI plugin", () => {
  const long = "n".repeat(255);
  it.each([
    ["/run/devinfo", "/run/devinfo/cni/x.json"],
    ["/var/run/devinfo", "/run/devinfo/cni/x.json"],
    ["/run/devinfo", `/run/devinfo/cni/${long}`],
  ])("in %s may be %s", (top, path) => {
    expect(checkCniFile(top, path)).toBe(path);
  });

  it.each([
    "",
    "x.json",
    "/run/devinfo/cni",
    "/run/devinfo/cni/",
    "/run/devinfo/cni/.",
    "/run/devinfo/cni/..",
    "/run/devinfo/cni/../dp/x.json",
    "/run/devinfo/cni/a/x.json",
    "/run/devinfo/cni//x.json",
    "/run/devinfo/dp/x.json",
    "/run/devinfo/cni/x\0.json",
    `/run/devinfo/cni/${long}n`,
    `/run/devinfo/cni/${"é".repeat(128)}`,
  ])("is refused: %j", (path) => {
    expect(() => checkCniFile("/run/devinfo", path)).toThrow(/not a name of at most 255 bytes directly in/);
  });
});

describe("removing a device-info file", () => {
  it.each([
    ["a file that is gone", () => rm(file)],
    ["a directory in its place", () => rm(file).then(() => mkdir(file))],
    [
      "a path that is not a directory",
      () => rm(dirname(file), { recursive: true }).then(() => writeFile(dirname(file), "")),
    ],
  ])("is done with %s", async (_what, change) => {
    await change();
    removeDeviceInfo(file);
    removeDeviceInfo(`${file}\0`);
  });
});

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
      "is a FIFO without a writer",
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

describe("device-info of a vhost-user socket", () => {
  it.each([
    [undefined, "server"],
    ["guest", "server"],
    ["switch", "client"],
  ] as const)("with %j as the socket's server names the container's side: %s", (socketServer, mode) => {
    const info = vhostUserDeviceInfo("/var/run/vhostuser/a/net1/vhost.sock", socketServer);
    expect(info["vhost-user"].mode).toBe(mode);
    expect(vhostUserDeviceInfoSchema.parse(info)).toEqual(info);
  });
});
