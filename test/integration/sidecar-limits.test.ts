import { open } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SidecarProcess } from "../bench/sidecar-process.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { waitUntil } from "../machine/wait-until.ts";

/** As the suite has built it. */
const program = "dist/sidecar/main.mjs";

let run: LabRun;
let sidecar: SidecarProcess;

beforeAll(async () => {
  run = await openLabRun();
  sidecar = await SidecarProcess.start(run, "limits", { cpu: false });
});
afterAll(async () => {
  await sidecar?.[Symbol.asyncDispose]();
  await run?.close();
});

const devices = (inner: string) => `<domain><devices>${inner}</devices></domain>`;
const numbered = (count: number) => [...Array(count).keys()].map((index) => `a${index}="1"`).join(" ");
const AT_ONCE = 4;
/** Of up to 4 MB each: more than the memory that it has. */
const REFUSALS = 20;

describe("the sidecar in 64 MB", () => {
  it.each([
    ["as many elements as it takes", devices("<interface><a/><b/></interface>".repeat(7_000))],
    ["as many attributes as it takes", devices(`<interface ${numbered(3_900)}/>`.repeat(10))],
    ["as long texts as it takes", devices(`${"x".repeat(99_000)}<a/>`.repeat(9))],
  ])("answers several calls at once with %s", async (_name, domain) => {
    const answers = await Promise.all([...Array(AT_ONCE)].map(() => sidecar.defineAny(domain)));
    for (const answer of answers) expect(answer).toContain("ua-net0");
    expect(await sidecar.cgroup.oomKills()).toBe(0);
  });

  it.each([
    ["too many elements", devices("<a/>".repeat(240_000)), "15000 elements"],
    ["a domain too large", devices("x".repeat(3_900_000)), "1000000 characters"],
    ["a billion laughs", `<!DOCTYPE d [<!ENTITY a "&b;&b;&b;">]><domain>&a;</domain>`, "DOCTYPE"],
  ])("refuses %s, as often as it is sent, and keeps running", async (_name, domain, words) => {
    for (let count = 0; count < REFUSALS; count++) {
      await expect(sidecar.defineAny(domain)).rejects.toMatchObject({
        details: expect.stringContaining(words),
      });
    }
    expect(await sidecar.defineAny(devices(""))).toContain("ua-net0");
  });

  it("refuses a VMI that is nested without end", async () => {
    await expect(sidecar.defineAny(devices(""), "[".repeat(3_900_000))).rejects.toMatchObject({
      details: expect.stringContaining("100 levels"),
    });
    expect(await sidecar.defineAny(devices(""))).toContain("ua-net0");
  });

  it("gives back what many calls needed", async () => {
    await using fresh = await SidecarProcess.start(run, "at-rest", { cpu: false });
    for (let call = 0; call < 150; call++) await fresh.define(16);
    const isSmall = async () => (await fresh.cgroup.memoryNow()).anonymousBytes < 25e6;
    await waitUntil(isSmall, { what: "less than 25 MB are its own" });
  });
});

it("the program's first line fits into what Linux reads of it", async () => {
  await using file = await open(program);
  const { buffer } = await file.read(Buffer.alloc(256), 0, 256, 0);
  // BINPRM_BUF_SIZE, since Linux 5.1; what is beyond it is not there for the kernel.
  expect(buffer.indexOf("\n")).toBeGreaterThan(0);
});
