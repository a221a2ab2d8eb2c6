import type { Place } from "./place.ts";

/** The first look after a change comes this soon; each further change within {@link QUIET_MS} doubles it. */
const FIRST_LOOK_MS = 20;
/** The last doubling: a socket is mended within this. */
const SLOWEST_LOOK_MS = 640;
const QUIET_MS = 5_000;
/**
 * So many looks within the span make a place restless. A pod that restarts its program causes one or two each time;
 * one that makes and unlinks files all the time causes them all, in 2.5 s.
 */
const RESTLESS_LOOKS = 8;
const RESTLESS_SPAN_MS = 10_000;

/**
 * Counts a change that leads to a look.
 * @param now milliseconds since the epoch
 * @returns milliseconds to wait before the look: the longer the oftener a place changes
 */
export function noteChange(place: Place, now: number): number {
  place.changes = now - place.changedAt > QUIET_MS ? 1 : place.changes + 1;
  place.changedAt = now;
  if (now - place.spanBegan > RESTLESS_SPAN_MS) {
    place.spanBegan = now;
    place.looksInSpan = 0;
  }
  place.looksInSpan += 1;
  return Math.min(SLOWEST_LOOK_MS, FIRST_LOOK_MS * 2 ** (place.changes - 1));
}

/** Whether a pod changes a directory without end. */
export function isRestless(place: Place): boolean {
  return place.looksInSpan >= RESTLESS_LOOKS;
}

/** Starts counting anew. */
export function forgetChanges(place: Place): void {
  place.changes = 0;
  place.looksInSpan = 0;
}
