import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readCalls, writeFakePlugin } from "./fake-plugin.ts";
import { StandInMultus } from "./multus.ts";
import type { SelectedNetwork } from "./network.ts";

// This process' own network namespace: looking into it needs no privilege.
const NETNS = `/proc/${process.pid}/ns/net`;
const sandbox = { pod: { namespace: "ns", name: "vm", uid: "uid-1" }, containerId: "c0ffee", netns: NETNS };

let root: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "multus-"));
  await mkdir(join(root, "bin"));
  await fake("fake");
});

afterEach(() => rm(root, { recursive: true, force: true }));

const fake = (type: string, behave = "") =>
  writeFakePlugin({ directory: join(root, "bin"), type, log: join(root, "calls"), behave });

const multus = () =>
  new StandInMultus({
    cniBinDir: join(root, "bin"),
    // No network here names a resource, so kubelet is not asked.
    podResourcesSocket: join(root, "none.sock"),
    deviceInfo: { devicePlugin: join(root, "dp"), cni: join(root, "cni") },
    cacheDirectory: join(root, "cache"),
  });

const network = (type: string, keys: Partial<SelectedNetwork> = {}): SelectedNetwork => ({
  namespace: "nets",
  name: "lan",
  config: { cniVersion: "1.1.0", type },
  ...keys,
});

describe("the stand-in Multus' checks", () => {
  it.each([
    { rule: "text beside the JSON", behave: `out = "hello\\n" + JSON.stringify(out)`, says: "not JSON" },
    { rule: "another version in the answer", behave: `out.cniVersion = "1.0.0"`, says: "cniVersion" },
    { rule: "nothing on stdout", behave: `out = ""`, says: "no result" },
    {
      rule: "an error with exit 0",
      behave: `out = { cniVersion: "1.1.0", code: 7, msg: "x" }`,
      says: "exit 0",
    },
    { rule: "exit 1 in silence", behave: `exit = 1; out = ""`, says: "without an error" },
    {
      rule: "an error without code",
      behave: `exit = 1; out = { cniVersion: "1.1.0", msg: "x" }`,
      says: "code",
    },
    { rule: "an error without msg", behave: `exit = 1; out = { cniVersion: "1.1.0", code: 7 }`, says: "msg" },
    { rule: "a broken MAC", behave: `out.interfaces[0].mac = "02"`, says: "interfaces[0].mac" },
    { rule: "an unknown key", behave: `out.colour = "red"`, says: "colour" },
  ])("refuse $rule", async ({ behave, says }) => {
    await fake("broken", `if (verb === "ADD") { ${behave} }`);
    await expect(multus().attach({ ...sandbox, networks: [network("broken")] })).rejects.toMatchObject({
      name: "CniViolation",
      message: expect.stringContaining(says),
    });
  });

  it("refuse output on a DEL that went well", async () => {
    await fake("chatty", `if (verb === "DEL") out = { cniVersion: stdin.cniVersion };`);
    await multus().attach({ ...sandbox, networks: [network("chatty")] });
    await expect(multus().detach(sandbox)).rejects.toThrow("on stdout");
  });

  it("refuse a namespace that is not there, and an interface that is there already", async () => {
    const networks = [network("fake")];
    await expect(multus().attach({ ...sandbox, netns: "/run/netns/none", networks })).rejects.toThrow(
      "cannot open network namespace",
    );
    await expect(
      multus().attach({ ...sandbox, networks: [network("fake", { interface: "lo" })] }),
    ).rejects.toThrow("lo exists");
    const calls = await readCalls(join(root, "calls"));
    expect(calls.filter(({ env }) => env["CNI_COMMAND"] === "ADD")).toEqual([]);
  });

  it("read the versions that a plugin speaks, and refuse an answer without them", async () => {
    expect(await multus().supportedVersions("fake")).toEqual(["0.4.0", "1.0.0", "1.1.0"]);
    await fake("mute", `out = { cniVersion: stdin.cniVersion };`);
    await expect(multus().supportedVersions("mute")).rejects.toThrow("supportedVersions");
  });

  it("keep what was attached in files that an operator can read", async () => {
    await multus().attach({ ...sandbox, networks: [network("fake")] });
    expect(JSON.parse(await readFile(join(root, "cache/c0ffee"), "utf8"))).toMatchObject([
      { id: "nets/lan" },
    ]);
  });
});
