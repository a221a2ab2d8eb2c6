import { setTimeout as delay } from "node:timers/promises";
import type { BenchNode } from "./bench-node.ts";
import { timeWork } from "./timed-program.ts";

/** How long a daemon is left alone, in milliseconds. */
export interface RestTimes {
  readonly settleMs: number;
  readonly idleMs: number;
}

/**
 * A daemon that has started does a first pass and a probe or two; it is looked at after them, for the reconciler's
 * default interval, so that it has its share.
 */
export const REST_TIMES: RestTimes = { settleMs: 3_000, idleMs: 30_000 };

/** Resident memory of a daemon some seconds after its last work. */
export async function settledMemory(node: BenchNode, { settleMs }: RestTimes): Promise<number> {
  await delay(settleMs);
  return node.daemonMB();
}

/** Share of one core, in percent, that the daemon takes while nobody asks anything of it. */
export async function idlePercent(node: BenchNode, { settleMs, idleMs }: RestTimes): Promise<number> {
  await delay(settleMs);
  const before = await node.daemonCpuSeconds();
  const ms = await timeWork(() => delay(idleMs));
  return (((await node.daemonCpuSeconds()) - before) * 1000 * 100) / ms;
}
