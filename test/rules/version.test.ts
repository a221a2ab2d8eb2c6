import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import manifest from "../../package.json" with { type: "json" };

const TOP = resolve(import.meta.dirname, "../..");
const read = (file: string) => readFileSync(join(TOP, file), "utf8");
const below = (directory: string) =>
  readdirSync(join(TOP, directory), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(TOP.length + 1));

describe("the version in package.json", () => {
  it("is package-lock.json's", () => {
    const lock = JSON.parse(read("package-lock.json")) as {
      version: string;
      packages: { "": { version: string } };
    };
    expect([lock.version, lock.packages[""].version]).toEqual([manifest.version, manifest.version]);
  });

  it("is the tag of every image of ours that a manifest names", () => {
    const named = below("deploy").flatMap((file) =>
      [...read(file).matchAll(/[\w./-]*kube-vhostuser[\w/-]*:(\d[\w.-]*)/g)].map(([image, tag]) => ({
        file,
        image,
        tag,
      })),
    );
    expect(named.length).toBeGreaterThan(1);
    expect(named.filter(({ tag }) => tag !== manifest.version)).toEqual([]);
  });

  it("is the chart's version and the version of what it installs", () => {
    const charts = below("deploy").filter((file) => file.endsWith("/Chart.yaml"));
    const versions = charts.map((file) => parse(read(file)) as { version: string; appVersion: string });
    for (const { version, appVersion } of versions) {
      expect([version, appVersion]).toEqual([manifest.version, manifest.version]);
    }
  });

  it("is one that docs/releasing.md allows", () => {
    expect(manifest.version).toMatch(/^\d+\.\d+\.\d+$/);
  });
});
