import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { describe, expect, it } from "vitest";

const SRC = join(import.meta.dirname, "../../src");

/**
 * Modules of src/ by layer, from the ground up (docs/architecture.md). A module imports modules of lower layers and
 * those before it in its own.
 */
const LAYERS: readonly (readonly string[])[] = [
  ["failure", "names", "addresses", "sync"],
  ["logging", "command-line", "files", "journal", "grpc"],
  ["config", "records", "kubelet", "kube-api", "address-objects", "claims", "protocols"],
  ["dataplane"],
  ["pools", "allocation", "ipam", "pool-addresses", "attachment"],
  [
    "device-plugin",
    "cni",
    "dra",
    "announcement",
    "reconcile",
    "sidecar",
    "observe",
    "status",
    "ipam-agent",
    "cni-dra",
    "ipam-controller",
  ],
  ["node-setup", "ctl", "daemon"],
];
const ORDER: readonly string[] = LAYERS.flat();

const files = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
const sources = files.filter((file) => !file.endsWith(".test.ts"));

/** Relative paths that a text imports, statically, dynamically or for a type. */
function relativeImports(text: string): string[] {
  return [...text.matchAll(/\b(?:from\s*|import\s*\(?\s*)"(\.[^"]+)"/g)].map(([, path = ""]) => path);
}

function importsOf(file: string): string[] {
  const text = readFileSync(join(SRC, file), "utf8");
  return relativeImports(text).map((path) => relative(SRC, join(SRC, dirname(file), path)));
}

/** A removal by Node that descends into directories, in whatever order its options are written. */
const RECURSIVE_REMOVAL = /\brm(?:dir)?(?:Sync)?\((?:[^;]*?[{,\s])?recursive:\s*true|\brimraf\b/;

const moduleOf = (file: string): string => file.split("/")[0] ?? "";

describe("the layout of src", () => {
  it("every module has a layer", () => {
    const unknown = [...new Set(files.map(moduleOf))].filter((name) => !ORDER.includes(name));
    expect(unknown, "give the module a layer here and in docs/architecture.md").toEqual([]);
  });

  it("imports go down only and stay below src", () => {
    const wrong = sources.flatMap((file) =>
      importsOf(file)
        // A program may know its own release.
        .filter((target) => target !== "../package.json" || !file.endsWith("main.ts"))
        .filter((target) => {
          const [to, from] = [ORDER.indexOf(moduleOf(target)), ORDER.indexOf(moduleOf(file))];
          return to < 0 || from < 0 || to > from;
        })
        .map((target) => `${file} imports ${target}`),
    );
    expect(wrong).toEqual([]);
  });

  it("no file imports itself in a cycle", () => {
    const circles: string[] = [];
    const done = new Set<string>();
    const visit = (file: string, path: readonly string[]): void => {
      if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file].join(" -> "));
      if (done.has(file) || path.includes(file)) return;
      for (const target of importsOf(file)) visit(target, [...path, file]);
      done.add(file);
    };
    for (const file of sources) visit(file, []);
    expect(circles).toEqual([]);
  });

  it("no file has a vague name", () => {
    const vague = /(^|\/)(utils?|common|helpers?|misc|types|consts|constants|index)(\/|\.ts$)/;
    expect(files.filter((file) => vague.test(file))).toEqual([]);
  });

  it("no source file has more than 300 lines", () => {
    const long = sources.filter((file) => readFileSync(join(SRC, file), "utf8").split("\n").length > 301);
    expect(long).toEqual([]);
  });

  it("only programs read the environment", () => {
    const readers = sources.filter(
      (file) => !file.endsWith("main.ts") && /process\.env/.test(readFileSync(join(SRC, file), "utf8")),
    );
    expect(readers).toEqual([]);
  });

  it("zod is imported as a namespace, so that bundles leave out what is not used of it", () => {
    const whole = sources.filter((file) =>
      /import (type )?\{.*from "zod"/.test(readFileSync(join(SRC, file), "utf8")),
    );
    expect(whole).toEqual([]);
  });

  it("the DRA driver is loaded only by a daemon that serves claims", () => {
    const loads = /^import (?!type\b)[^;]*"[./]+\/dra\/(?!dra-context\.ts")/m;
    const wrong = sources
      .filter((file) => !/^(?:dra|cni-dra|ctl)\//.test(file))
      .filter((file) => loads.test(readFileSync(join(SRC, file), "utf8")));
    expect(wrong, "use a dynamic import, as src/daemon/assemble.ts does").toEqual([]);
  });

  it("directories are removed recursively only by the function that follows no link", () => {
    const wrong = sources.filter((file) => RECURSIVE_REMOVAL.test(readFileSync(join(SRC, file), "utf8")));
    expect(wrong).toEqual([]);
  });

  it.each([
    "rm(path, { force: true, recursive: true })",
    "rmSync(join(a, b), { recursive: true })",
    "await rmdir(path, {\n  maxRetries: 3,\n  recursive: true,\n})",
    'import rimraf from "rimraf"',
  ])("sees a recursive removal: %s", (text) => {
    expect(text).toMatch(RECURSIVE_REMOVAL);
    expect("await mkdir(path, { recursive: true }); await rm(file, { force: true });").not.toMatch(
      RECURSIVE_REMOVAL,
    );
  });

  it.each([
    'import { a } from "./a.ts";',
    'import "./a.ts";',
    'const { a } = await import("./a.ts");',
    'type A = import( "./a.ts" ).A;',
    'export * from"./a.ts";',
  ])("sees an import: %s", (text) => {
    expect(relativeImports(text)).toEqual(["./a.ts"]);
  });

  it("only the dataplane and the configuration's schema know kinds of switches", () => {
    const knows = /["'](vpp|ovs-dpdk)["']|["'][./]+dataplane\/(vpp|ovs)\//;
    const wrong = sources
      .filter((file) => !file.startsWith("dataplane/") && file !== "config/pool-schema.ts")
      .filter((file) => knows.test(readFileSync(join(SRC, file), "utf8")));
    expect(wrong, "use a flag of Dataplane.capabilities, or src/dataplane/switch-kind.ts").toEqual([]);
  });

  it("documents the same modules", () => {
    const text = readFileSync(join(SRC, "../docs/architecture.md"), "utf8");
    expect(files.map(moduleOf).filter((name) => !text.includes(`\`${name}\``))).toEqual([]);
  });
});
