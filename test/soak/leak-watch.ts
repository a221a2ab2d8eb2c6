import { readdirSync, readFileSync, readlinkSync, statfsSync } from "node:fs";
import type { ClusterNode } from "../cluster/cluster-node.ts";
import { waitUntil } from "../machine/wait-until.ts";

/** Short-lived connections: a scrape, a call that just ends, the first contact to a bridge. */
const SPARE_DESCRIPTORS = 6;
/** The DaemonSet's limit; private memory only, because the kernel reclaims pages of the program's file when needed. */
const MOST_MIB = 256;
/** Rounds until a daemon's memory counts as settled, and how many the median is taken of. */
const WARM_UP = 10;
const WINDOW = 5;
/** V8 grows its heap at any time, so only growth beyond that at rest counts. */
const GROWTH_MIB = 24;
/** Of an idle root: empty directories and sockets take no blocks. */
const MOST_ROOT_BYTES = 1024 * 1024;
const SETTLE_LIMIT_MS = 180_000;

/** What a daemon holds at the end of a round, without disturbances. */
export interface Holdings {
  readonly descriptors: number;
  readonly mib: number;
}

/** Compares what a node's daemon holds with what it held before. */
export class LeakWatch {
  readonly #node: ClusterNode;
  #pid = -1;
  /** What the present daemon had at its first measurement. */
  #descriptors = 0;
  #mib: number[] = [];

  constructor(node: ClusterNode) {
    this.#node = node;
  }

  /** @throws Failure or Error where the daemon keeps growing */
  async check(): Promise<Holdings> {
    const pid = this.#node.daemonPid;
    if (pid !== this.#pid) {
      this.#pid = pid;
      this.#descriptors = descriptorsOf(pid).length;
      this.#mib = [];
    }
    const what = `the daemon of node ${this.#node.name}`;
    const most = this.#descriptors + SPARE_DESCRIPTORS;
    let now = descriptorsOf(pid);
    await waitUntil(
      () => {
        now = descriptorsOf(pid);
        return now.length <= most;
      },
      {
        what: `${what} has no more than ${most} descriptors`,
        limitMs: SETTLE_LIMIT_MS,
        everyMs: 200,
        detail: () => `${now.length}: ${counted(now.map((each) => describe(pid, each)))}`,
      },
    );
    await waitUntil(() => usedBytes(this.#node.root) <= MOST_ROOT_BYTES, {
      what: `the root of node ${this.#node.name} is empty again`,
      limitMs: SETTLE_LIMIT_MS,
      everyMs: 200,
      detail: () => `${usedBytes(this.#node.root)} bytes are taken`,
    });
    const mib = ownMib(pid);
    this.#mib.push(mib);
    if (mib > MOST_MIB) throw new Error(`${what} has ${mib} MiB`);
    const growth = growthOf(this.#mib);
    if (growth > GROWTH_MIB) throw new Error(`${what} grew by ${growth} MiB: ${this.#mib.join(" ")}`);
    return { descriptors: now.length, mib };
  }
}

/** Between the rounds after the warm-up and the last ones. */
function growthOf(series: readonly number[]): number {
  if (series.length < WARM_UP + 2 * WINDOW) return 0;
  return median(series.slice(-WINDOW)) - median(series.slice(WARM_UP, WARM_UP + WINDOW));
}

function median(values: readonly number[]): number {
  return values.toSorted((left, right) => left - right)[Math.floor(values.length / 2)] ?? 0;
}

function descriptorsOf(pid: number): readonly string[] {
  return readdirSync(`/proc/${pid}/fd`);
}

function describe(pid: number, descriptor: string): string {
  try {
    return readlinkSync(`/proc/${pid}/fd/${descriptor}`).replace(/\d+/g, "N");
  } catch {
    return "closed meanwhile";
  }
}

/** `3 socket:[N], 1 /dev/null`. */
function counted(names: readonly string[]): string {
  const groups = Map.groupBy(names, (name) => name);
  return [...groups].map(([name, all]) => `${all.length} ${name}`).join(", ");
}

function ownMib(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Math.round(Number(/^RssAnon:\s+(\d+) kB/m.exec(status)?.[1]) / 1024);
}

function usedBytes(path: string): number {
  const { blocks, bfree, bsize } = statfsSync(path);
  return (blocks - bfree) * bsize;
}
