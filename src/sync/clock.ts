import { setTimeout as delay } from "node:timers/promises";

/** Time as a collaborator, so that tests move it by hand. */
export interface Clock {
  /** Milliseconds since the epoch: for what is recorded or shown. It steps when the node's time is set. */
  now(): number;
  /** Milliseconds of a clock that is never set: for deadlines, ages and intervals. */
  monotonic(): number;
  /** Resolves after `ms`, or rejects with the signal's reason. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** The machine's clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => monotonicMs(),
  sleep: (ms, signal) => delay(ms, undefined, signal === undefined ? {} : { signal }),
};

/** Milliseconds of the system's CLOCK_MONOTONIC, which all processes of a node share. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
