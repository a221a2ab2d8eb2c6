import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { executePluginsOf } from "./execute-plugin.ts";
import { runIpam } from "./plugin-ipam.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-plugins-"));
});
afterEach(() => rm(directory, { recursive: true }));

const install = async (name: string, script: string) => {
  await writeFile(join(directory, name), `#!/bin/sh\n${script}\n`);
  await chmod(join(directory, name), 0o755);
};
const run = (type: string, more: object = {}) =>
  executePluginsOf(directory)({ type, env: { CNI_COMMAND: "ADD" }, stdin: Buffer.from("{}"), ...more });

describe("a plugin that the daemon executes", () => {
  it("gets the configuration, the CNI variables and nothing else of the daemon's environment", async () => {
    await install("echo", 'cat; echo "$CNI_COMMAND $CNI_PATH $HOME."');
    expect(await run("echo")).toEqual({ exitCode: 0, stdout: `{}ADD ${directory} .\n` });
  });

  it("reports how it failed, with what it printed", async () => {
    await install("fails", 'echo \'{"code": 11, "msg": "no address is left"}\'; exit 1');
    const asked = { env: {}, stdin: Buffer.from("{}") };
    await expect(runIpam("fails", "ADD", asked, executePluginsOf(directory))).rejects.toMatchObject({
      code: "ipam-failed",
      what: expect.stringContaining("no address is left"),
      cniCode: 11,
    });
  });

  it("is missing where it is not in the directory, or cannot be executed", async () => {
    await writeFile(join(directory, "text"), "not a program");
    expect(await run("text")).toEqual({ exitCode: 127, stdout: "" });
    expect(await run("absent")).toEqual({ exitCode: 127, stdout: "" });
  });

  it("is ended at its limit, with all that it started", async () => {
    await install("hangs", "sleep 1000 & sleep 1000");
    // The pipe of its output closes only when the processes that it started are gone too.
    expect(await run("hangs", { limitMs: 50 })).toEqual({ exitCode: 124, stdout: "" });
  });

  it("is ended when it prints more than 1 MiB", async () => {
    await install("talks", "exec yes");
    expect(await run("talks")).toEqual({ exitCode: 126, stdout: "" });
  });

  it("may leave its configuration unread", async () => {
    await install("deaf", "exec <&-; echo done");
    expect(await run("deaf", { stdin: Buffer.alloc(1024 * 1024, " ") })).toMatchObject({ stdout: "done\n" });
  });
});
