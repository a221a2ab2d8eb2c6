import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { compileShim } from "../../scripts/build/compile-shim.ts";
import { runProgram } from "../machine/run-program.ts";

const MIB = 1024 * 1024;

let built: string;
beforeAll(async () => {
  built = await mkdtemp(join(tmpdir(), "kvu-shim-build-"));
});
afterAll(() => rm(built, { recursive: true }));

describe.each([
  { processor: "x64", machine: "Advanced Micro Devices X86-64" },
  { processor: "arm64", machine: "AArch64" },
] as const)("the CNI executable for $processor", ({ processor, machine }) => {
  it("is the same bytes each time, below 1 MiB", async () => {
    const files = ["one", "two"].map((name) => join(built, `${processor}-${name}`));
    for (const output of files) await compileShim({ processor, output });
    const [one, two] = await Promise.all(files.map((file) => readFile(file)));
    expect(one?.equals(two ?? Buffer.alloc(0))).toBe(true);
    expect((await stat(files[0] ?? "")).size).toBeLessThan(MIB);
  });

  it("needs no loader and no library, can lie anywhere and has nothing both writable and executable", async () => {
    const file = await compileShim({ processor, output: join(built, processor) });
    const { stdout: header } = await runProgram("readelf", ["-hW", file]);
    expect(header).toContain(machine);
    expect(header).toMatch(/Type: +DYN/);
    const { stdout: segments } = await runProgram("readelf", ["-lW", file]);
    expect(segments).not.toContain("INTERP");
    expect(segments).not.toContain("RWE");
    expect(segments).toContain("GNU_RELRO");
    const { stdout: dynamic } = await runProgram("readelf", ["-dW", file]);
    expect(dynamic).not.toContain("NEEDED");
    expect(dynamic).toMatch(/BIND_NOW|FLAGS_1.* NOW/);
  });
});
