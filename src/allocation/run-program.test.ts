import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, it } from "vitest";

it("does not hold up the end of the process where the program cannot be started", () => {
  const script = `
    const { runProgram } = await import(${JSON.stringify(join(import.meta.dirname, "selinux-label.ts"))});
    await runProgram("kvu-no-such-program", [], []).catch(({ code }) => console.log(code));
    console.log(process.getActiveResourcesInfo().includes("Timeout"));`;
  const { stdout, signal } = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
    encoding: "utf8",
    timeout: 50_000,
  });
  expect([stdout, signal]).toEqual(["ENOENT\nfalse\n", null]);
});
