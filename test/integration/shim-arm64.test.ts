import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { compileShim } from "../../scripts/build/compile-shim.ts";
import { shimContract } from "../contract/shim.ts";
import { SHIM_TIMES } from "../contract/shim-under-test.ts";
import { runProgram } from "../machine/run-program.ts";
import { partMissing } from "../shim/part-missing.ts";

let built: string;
beforeAll(async () => {
  built = await mkdtemp(join(tmpdir(), "kvu-shim-arm64-"));
});
afterAll(() => rm(built, { recursive: true }));

shimContract("arm64, under emulation", async () => {
  const runner = ["qemu-aarch64"];
  await runProgram("qemu-aarch64", ["--version"]).catch(partMissing("qemu-aarch64", "qemu-user"));
  const build = (name: string, defines: Readonly<Record<string, number>>) =>
    compileShim({ processor: "arm64", output: join(built, name), defines });
  return {
    usual: { runner, executable: await build("usual", SHIM_TIMES.usual) },
    strict: { runner, executable: await build("strict", { ...SHIM_TIMES.usual, ...SHIM_TIMES.strict }) },
    lenient: { runner, executable: await build("lenient", { ...SHIM_TIMES.usual, ...SHIM_TIMES.lenient }) },
  };
});
