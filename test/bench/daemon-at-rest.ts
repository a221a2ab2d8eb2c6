import { setTimeout as delay } from "node:timers/promises";
import type { BenchNode } from "./bench-node.ts";
import { timeWork } from "./timed-program.ts";

/** A daemon that has started does a first pass and a probe or two; it is looked at after them. */
const SETTLE_MS = 3_000;
/** The reconciler's default interval, so that it has its share. */
const IDLE_MS = 30_000;

/** Resident memory of a daemon some seconds after its last work. */
export async function settledMemory(node: BenchNode): Promise<number> {
  await delay(SETTLE_MS);
  return node.daemonMB();
}

/** Share of one core, in percent, that the daemon takes while nobody asks anything of it. */
export async function idlePercent(node: BenchNode): Promise<number> {
  await delay(SETTLE_MS);
  const before = await node.daemonCpuSeconds();
  const ms = await timeWork(() => delay(IDLE_MS));
  return (((await node.daemonCpuSeconds()) - before) * 1000 * 100) / ms;
}
