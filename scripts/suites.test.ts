import { existsSync } from "node:fs";
import { expect, it } from "vitest";
import { planTests } from "./suites.ts";

const filesOf = (all: boolean, files: readonly string[] | undefined, release = "v0.1.0") => {
  const { suites, leftOut } = planTests(all, { release, isRelease: false, files });
  return { named: suites.flatMap(({ args }) => args.filter((arg) => arg.includes("test/"))), leftOut };
};

it("every file that a run names exists", () => {
  const { named } = filesOf(false, []);
  expect(named.map((arg) => arg.replace("--exclude=", "")).filter((file) => !existsSync(file))).toEqual([]);
});

it("a part is left out with the reason when nothing that it tests changed since the last release", () => {
  const { named, leftOut } = filesOf(false, ["src/status/page/serve-page.ts"]);
  expect(named).toContain("--exclude=test/integration/image.test.ts");
  expect(named).not.toContain("--exclude=test/integration/status-page-browser.test.ts");
  expect(leftOut).toContainEqual(
    expect.stringMatching(/^image: nothing that it tests changed since v0\.1\.0/),
  );
});

it.each([
  ["the whole run is asked for", true, []],
  ["there is no release to compare with", false, undefined],
] as const)("nothing conditional is left out when %s", (_, all, files) => {
  const { named, leftOut } = filesOf(all, files);
  expect(named).not.toContain("--exclude=test/integration/image.test.ts");
  expect(leftOut).toHaveLength(all ? 1 : 2);
});
