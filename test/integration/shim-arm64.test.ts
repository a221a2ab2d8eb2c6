import { compileShim } from "../../scripts/build/compile-shim.ts";
import { shimContract } from "../contract/shim.ts";
import { runProgram } from "../machine/run-program.ts";
import { partMissing } from "../shim/part-missing.ts";

shimContract("arm64, under emulation", async (output, defines) => {
  await runProgram("qemu-aarch64", ["--version"]).catch(partMissing("qemu-aarch64", "qemu-user"));
  return { runner: ["qemu-aarch64"], executable: await compileShim({ processor: "arm64", output, defines }) };
});
