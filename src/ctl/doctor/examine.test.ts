import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { checkedHost } from "../../../test/stand-in/doctor/checked-host.ts";
import { examine, renderExamined } from "./doctor.ts";
import { hugepagesCheck, userCheck, versionsCheck } from "./host-checks.ts";
import type { CheckedHost, Finding } from "./node-check.ts";

let directory: string;
let host: CheckedHost;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-doctor-"));
  host = checkedHost(directory);
});
afterEach(() => rm(directory, { recursive: true }));

/** What was found that is not ok, each as `verdict: what`. */
function findingsOf(findings: readonly Finding[]): string[] {
  return findings.filter(({ verdict }) => verdict !== "ok").map(({ verdict, what }) => `${verdict}: ${what}`);
}

describe("doctor checks the machine", () => {
  async function pages(size: string, total: number, free: number): Promise<void> {
    const path = join(directory, "sys/kernel/mm/hugepages", `hugepages-${size}`);
    await mkdir(path, { recursive: true });
    await writeFile(join(path, "nr_hugepages"), `${total}\n`);
    await writeFile(join(path, "free_hugepages"), `${free}\n`);
  }

  it("hugepages: some free, none free, none reserved, unknown", async () => {
    expect(findingsOf(await hugepagesCheck(host))).toEqual([expect.stringContaining("skipped: ")]);
    await pages("2048kB", 0, 0);
    expect(findingsOf(await hugepagesCheck(host))).toEqual(["problem: no hugepages are reserved"]);
    await pages("1048576kB", 8, 0);
    expect(findingsOf(await hugepagesCheck(host))).toEqual(["warning: 1048576kB: 0 of 8 free"]);
    await pages("2048kB", 512, 100);
    expect(findingsOf(await hugepagesCheck(host))).toEqual([]);
  });

  it.each([
    ["6.1.0-28-amd64", []],
    ["5.10.0", []],
    ["5.9.16", ["problem: Linux 5.9.16"]],
    ["4.18.0-553.el8.x86_64", ["problem: Linux 4.18.0-553.el8.x86_64"]],
  ])("versions: Linux %s", async (kernel, found) => {
    expect(findingsOf(await versionsCheck({ ...host, kernel }))).toEqual(found);
  });

  it("user: a warning without root", async () => {
    expect(findingsOf(await userCheck(host))).toEqual([]);
    expect(findingsOf(await userCheck({ ...host, uid: 1000 }))).toHaveLength(1);
  });
});

describe("doctor as a whole", () => {
  it("names what it skips without a configuration, and still checks the machine", async () => {
    const file = join(directory, "nothing.yaml");
    const examined = await examine({ ...host, places: { node: "n", config: file } });
    const verdicts = examined.map(
      ({ name, findings }) => `${name} ${findings.map((one) => one.verdict).join()}`,
    );
    expect(verdicts.slice(0, 5)).toEqual([
      "user ok",
      "versions ok,ok",
      "hugepages skipped",
      "configuration problem",
      "root skipped",
    ]);
  });

  it.each([
    ["a mistyped key", "reclame: {}", "write reclaim"],
    ["an invalid pool", "pools: { p: {} }", "capacity"],
    ["no YAML", "pools: [", "Flow sequence"],
  ])(
    "says what is wrong with a configuration that is invalid, and checks the node all the same: %s",
    async (_, text, says) => {
      const file = join(directory, "config.yaml");
      await writeFile(file, `root: ${join(directory, "run")}\n${text}\n`);
      const examined = await examine({ ...host, places: { node: "n", config: file } });
      const findings = examined.find(({ name }) => name === "configuration")?.findings;
      expect(findings).toMatchObject([
        { what: expect.stringContaining(says), cure: expect.stringMatching(/^correct it/) },
      ]);
      const root = examined.find(({ name }) => name === "root")?.findings;
      expect(root).toMatchObject([{ verdict: "problem", what: expect.stringContaining(directory) }]);
      expect(
        examined
          .flatMap((one) => one.findings)
          .map(({ what }) => what)
          .join(),
      ).not.toContain("needs a configuration");
    },
  );

  it("prints 80 columns, each finding with its cure", () => {
    const text = renderExamined({ columns: 80, colour: false, write: () => undefined }, [
      { name: "root", findings: [{ verdict: "ok", what: "/r" }] },
      {
        name: "configuration",
        findings: [
          { verdict: "problem", what: "x ".repeat(60).trim(), cure: "y ".repeat(60).trim() },
          { verdict: "warning", what: "w", cure: "c" },
        ],
      },
    ]);
    expect(text.split("\n").filter((line) => line.length > 80)).toEqual([]);
    expect(text).toMatch(/^root {11}ok {7}\/r$/m);
    expect(text).toMatch(/^ {24}cure: y y/m);
    expect(text).toMatch(/\n1 problem, 1 warning\n$/);
  });
});
