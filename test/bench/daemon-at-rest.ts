import { setTimeout as delay } from "node:timers/promises";
import type { BenchNode } from "./bench-node.ts";
import { timeWork } from "./timed-program.ts";

/** How long a daemon is left alone, in milliseconds. */
export interface RestTimes {
  /** A daemon that has started does a first pass and a probe or two. */
  readonly settleMs: number;
  /** A daemon that has allocated checks what it has made some seconds later, and then V8 collects. */
  readonly calmMs: number;
  readonly idleMs: number;
}

/** It is watched for the reconciler's default interval, so that it has its share. */
export const REST_TIMES: RestTimes = { settleMs: 3_000, calmMs: 30_000, idleMs: 30_000 };

/** Only to show that a measurement works. */
export const TRIAL_REST: RestTimes = { settleMs: 0, calmMs: 0, idleMs: 100 };

/** Resident memory of a daemon some seconds after its last work. */
export async function settledMemory(node: BenchNode, { settleMs }: RestTimes): Promise<number> {
  await delay(settleMs);
  return node.daemonMB();
}

/** Resident memory of a daemon without requests for a while. */
export async function calmMemory(node: BenchNode, { calmMs }: RestTimes): Promise<number> {
  await delay(calmMs);
  return node.daemonMB();
}

/** Share of one core, in percent, that a daemon which had no requests for a while uses without any. */
export async function idlePercent(node: BenchNode, { idleMs }: RestTimes): Promise<number> {
  const before = await node.daemonCpuSeconds();
  const ms = await timeWork(() => delay(idleMs));
  return (((await node.daemonCpuSeconds()) - before) * 1000 * 100) / ms;
}
