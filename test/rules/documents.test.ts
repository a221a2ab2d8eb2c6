import { globSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { type Example, exampleFault } from "./document-examples.ts";

const TOP = resolve(import.meta.dirname, "../..");
const DOCUMENTS = globSync(["*.md", "docs/**/*.md", "test/**/*.md", ".github/**/*.md"], { cwd: TOP });
const FENCE = /^( *)(```+)([\w-]*)\n(.*?)^\1\2 *$/gms;

function examplesOf(file: string): Example[] {
  return [...readFileSync(join(TOP, file), "utf8").matchAll(FENCE)].map(
    ([, indent, , language = "", text = ""]) => ({
      language,
      text: text.replaceAll(new RegExp(`^${indent}`, "gm"), ""),
    }),
  );
}

describe("documents", () => {
  it.each(DOCUMENTS)("%s has YAML and JSON that the programs accept", (file) => {
    expect(examplesOf(file).flatMap((example) => exampleFault(example) ?? [])).toEqual([]);
  });

  it("docs/README.md, from which the site's sidebar is made, lists every page", () => {
    const list = readFileSync(join(TOP, "docs/README.md"), "utf8");
    const pages = globSync("*.md", { cwd: join(TOP, "docs") }).filter((page) => page !== "README.md");
    expect(pages.filter((page) => !list.includes(`](${page})`))).toEqual([]);
  });
});
