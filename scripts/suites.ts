import { spawnSync } from "node:child_process";
import { join } from "node:path";

/** A part of the tests: its name, and what vitest is called with. */
export interface Suite {
  readonly what: string;
  readonly args: readonly string[];
}

const integration = (...names: readonly string[]) =>
  names.map((name) => join("test/integration", `${name}.test.ts`));

/** Runs every benchmark once, in two minutes: weekly, for a release and with `--all`. */
const BENCHMARKS = integration("bench-suites");

/**
 * Integration files at a time, more than there are processors: most of them wait, for a peer to give up or for a grace
 * time to end. Each has its own directories, namespaces, switch and half a gibibyte of hugepages.
 */
const AT_ONCE = 6;
/** Of the lab's, whose guests are emulated. */
const LAB_AT_ONCE = 2;

/** A part that depends on few files and is long, or needs packages that nothing else needs. */
interface ConditionalPart {
  readonly what: string;
  readonly files: readonly string[];
  /** What it tests: files, or folders with a slash at the end. */
  readonly tests: readonly string[];
}

const CONDITIONAL: readonly ConditionalPart[] = [
  {
    what: "CNI executable for arm64",
    files: integration("shim-arm64"),
    tests: ["src/cni/shim/", "scripts/build/compile-shim.ts", "test/contract/", "test/shim/"],
  },
  {
    what: "image",
    files: integration("image"),
    tests: ["scripts/build/", "scripts/image/", "deploy/image/", "src/node-setup/", "package-lock.json"],
  },
  {
    what: "chart and overlays",
    files: integration("chart", "overlays"),
    tests: ["deploy/", "scripts/build/", "src/config/", "test/manifests/"],
  },
  {
    what: "status page in a browser",
    files: integration("status-page-browser"),
    tests: ["src/status/page/", "test/browser/"],
  },
  {
    what: "alerts in Prometheus",
    files: integration("prometheus-rules"),
    tests: ["deploy/chart/", "src/observe/", "test/integration/alert-cases.ts"],
  },
];

/** What a run of `npm test` consists of, and what it leaves out, each with the reason as a sentence. */
export interface TestPlan {
  readonly suites: readonly Suite[];
  readonly leftOut: readonly string[];
}

/** Left out of every run: what it finds depends on chance and time. */
const SOAK =
  "soak, and longer runs of the churn and the model of IPAM: npm run soak; weekly in .github/workflows/soak.yml";
const NO_BENCHMARKS = "each benchmark once: npm test -- --all; weekly, and for a release";

/**
 * Plans a run of all tests. Conditional parts run when a file that they test changed since the last release; all of
 * them run for a release itself, before the first one, and where git has no history.
 * @param all runs the conditional parts and the benchmarks in any case
 */
export function planTests(all: boolean, since: ChangedFiles = changedSinceLastRelease()): TestPlan {
  const unchanged = CONDITIONAL.filter(
    (part) => !all && since.files !== undefined && !isTouched(part, since.files),
  );
  const skipped = unchanged.flatMap(({ files }) => files);
  const withBenchmarks = all || since.isRelease;
  const exclude = [...BENCHMARKS, ...skipped].map((file) => `--exclude=${file}`);
  const atOnce = (files: number) => ["--fileParallelism", `--maxWorkers=${files}`];
  return {
    suites: [
      { what: "unit", args: ["--project", "unit", "--maxWorkers=100%"] },
      { what: "integration", args: ["--project", "integration", ...atOnce(AT_ONCE), ...exclude] },
      // For themselves: they measure.
      ...(withBenchmarks ? [{ what: "benchmarks", args: ["--project", "integration", ...BENCHMARKS] }] : []),
      { what: "lab", args: ["--project", "lab", ...atOnce(LAB_AT_ONCE)] },
    ],
    leftOut: [
      SOAK,
      ...(withBenchmarks ? [] : [NO_BENCHMARKS]),
      ...unchanged.map(
        ({ what }) => `${what}: nothing that it tests changed since ${since.release}; npm test -- --all`,
      ),
    ],
  };
}

function isTouched({ files, tests }: ConditionalPart, changed: readonly string[]): boolean {
  return changed.some(
    (path) =>
      files.includes(path) || tests.some((one) => (one.endsWith("/") ? path.startsWith(one) : path === one)),
  );
}

/** Files that differ from the last release. */
export interface ChangedFiles {
  /** Its tag. */
  readonly release?: string;
  /** Whether this is the release itself. */
  readonly isRelease: boolean;
  /** Paths from the top; undefined where everything counts as changed. */
  readonly files: readonly string[] | undefined;
}

function changedSinceLastRelease(): ChangedFiles {
  const release = git("describe", "--tags", "--match=v*.*.*", "--abbrev=0");
  const isRelease = git("describe", "--tags", "--match=v*.*.*", "--exact-match") !== undefined;
  const committed = release === undefined ? undefined : git("diff", "--name-only", release);
  const added = git("ls-files", "--others", "--exclude-standard");
  if (release === undefined || isRelease || committed === undefined || added === undefined) {
    return { isRelease, files: undefined };
  }
  return {
    release,
    isRelease,
    files: [...committed.split("\n"), ...added.split("\n")].filter((path) => path !== ""),
  };
}

/** @returns what git prints, undefined where it fails */
function git(...args: readonly string[]): string | undefined {
  const { status, stdout } = spawnSync("git", args, {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
  return status === 0 ? stdout.trim() : undefined;
}
