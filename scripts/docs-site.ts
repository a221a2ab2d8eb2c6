// npm run docs:site: the documentation as a web site with search, in dist/site. Its generator has packages of its own
// (docs/site/package-lock.json), which nothing else needs.
import { execFileSync } from "node:child_process";
import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { programOf, runProgram } from "../src/command-line/program.ts";
import { Narrator } from "./narrator.mjs";
import { runTool } from "./run-tool.ts";

const BUILD = "dist/site-build";
const NPM_CI = ["ci", "--no-audit", "--no-fund", "--no-progress", "--loglevel=error"];

async function main(): Promise<void> {
  await rm(join(BUILD, "pages"), { recursive: true, force: true });
  await cp("docs/site", BUILD, { recursive: true });
  const tracked = execFileSync("git", ["ls-files", "-z", "*.md", "docs/images"], { encoding: "utf8" });
  for (const file of tracked.split("\0").filter(Boolean)) await cp(file, join(BUILD, "pages", file));
  const narrator = new Narrator(process.stderr, "dist/durations/site.json");
  const steps = [
    {
      name: "packages",
      doing: "npm packages of the generator",
      tool: "/usr/bin/env",
      args: ["npm", ...NPM_CI],
    },
    { name: "pages", doing: "pages", tool: "./node_modules/.bin/vitepress", args: ["build", "."] },
  ];
  for (const step of steps) {
    const { code } = await runTool(narrator, { ...step, cwd: BUILD });
    if (code !== 0) process.exit(code);
  }
  narrator.remember();
  console.log("dist/site: serve it with any web server, for example npx http-server dist/site");
}

await runProgram(
  programOf(
    "npm run docs:site --",
    "Builds the documentation as a web site with search, in dist/site.",
  ).action(main),
);
