import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import manifest from "../../package.json" with { type: "json" };

interface Job {
  readonly permissions?: Readonly<Record<string, string>>;
  readonly needs?: readonly string[];
  readonly uses?: string;
  readonly container?: { readonly image: string };
  readonly steps?: readonly { readonly uses?: string; readonly run?: string; readonly with?: object }[];
}

const TOP = resolve(import.meta.dirname, "../..");
const DIRECTORY = join(TOP, ".github/workflows");
const files = readdirSync(DIRECTORY);
const text = (file: string) => readFileSync(join(DIRECTORY, file), "utf8");
const jobsOf = (file: string) => parse(text(file)).jobs as Readonly<Record<string, Job>>;
const jobs = files.flatMap((file) =>
  Object.entries(jobsOf(file)).map(([name, job]) => ({ file, name, job })),
);
const steps = jobs.flatMap(({ file, job }) => (job.steps ?? []).map((step) => ({ file, ...step })));

describe("the workflows", () => {
  it("give a job no right that it does not name, and the right to write to the last job only", () => {
    for (const file of files) expect(parse(text(file)).permissions).toEqual({});
    const writers = jobs.filter(({ job }) => Object.values(job.permissions ?? {}).includes("write"));
    expect(writers.map(({ file, name }) => `${file} ${name}`)).toEqual(["release.yml publish"]);
    expect(jobs.filter(({ job }) => job.permissions === undefined)).toEqual([]);
  });

  it("publish only what was tested and what was built without a right to publish", () => {
    const { publish, test } = jobsOf("release.yml");
    expect(publish?.needs).toEqual(["test", "build"]);
    expect(test?.uses).toBe("./.github/workflows/ci.yml");
    const ran = (publish?.steps ?? []).map(({ run = "" }) => run).join("\n");
    expect(ran).not.toMatch(/npm|node /);
  });

  it("run others' actions by commit, with the version beside it", () => {
    const used = files.flatMap((file) =>
      [...text(file).matchAll(/uses: (?!\.\/)(.*)$/gm)].map(([, what]) => what),
    );
    expect(used.length).toBeGreaterThan(5);
    for (const what of used) expect(what).toMatch(/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  });

  it("leave no token behind in a checkout", () => {
    const checkouts = steps.filter(({ uses }) => uses?.startsWith("actions/checkout@"));
    for (const checkout of checkouts) expect(checkout.with).toMatchObject({ "persist-credentials": false });
  });

  it("run npm scripts, files and a chart that there are", () => {
    const run = steps.map((step) => step.run ?? "").join("\n");
    const scripts = [...run.matchAll(/npm run ([\w:-]+)/g)].map(([, name = ""]) => name);
    expect(new Set(scripts)).toEqual(new Set(["image", "release-notes", "soak"]));
    expect(scripts.filter((name) => !(name in manifest.scripts))).toEqual([]);
    expect(run).toContain(".ci/run");
    expect(existsSync(join(TOP, ".ci/run"))).toBe(true);
    expect(run).toContain("helm package deploy/chart/kube-vhostuser");
  });

  it("put nothing from outside into a command's text", () => {
    expect(steps.filter(({ run }) => run?.includes("${{")).map(({ run }) => run)).toEqual([]);
  });
});
