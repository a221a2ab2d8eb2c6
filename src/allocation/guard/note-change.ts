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
 * So many looks within the span, 300 ms after its first change at the earliest, and so many inodes that are gone since
 * it began: a place in which there is little to see then takes them by files that it unlinks and keeps open. Programs
 * take some 100 000 a second in one directory, which leaves the half of the default stock that is nobody's.
 */
const TAKING_LOOKS = 4;
/** The same for a pod that was locked out before, 60 ms after its first change. */
const TAKING_LOOKS_AGAIN = 2;
const TAKEN_INODES = 8_192;

/**
 * Counts a change that leads to a look.
 * @param now milliseconds since the epoch; the clock may step
 * @param inodesUsed those of the whole root; undefined when nobody can tell
 * @returns milliseconds to wait before the look: the longer the oftener a place changes
 */
export function noteChange(place: Place, now: number, inodesUsed: number | undefined): number {
  place.changes = Math.abs(now - place.changedAt) > QUIET_MS ? 1 : place.changes + 1;
  place.changedAt = now;
  if (Math.abs(now - place.spanBegan) > RESTLESS_SPAN_MS) {
    place.spanBegan = now;
    place.inodesAtSpan = inodesUsed;
    place.looksInSpan = 0;
  }
  place.looksInSpan += 1;
  return Math.min(SLOWEST_LOOK_MS, FIRST_LOOK_MS * 2 ** (place.changes - 1));
}

/** Whether a pod changes a directory without end. */
export function isRestless(place: Place): boolean {
  return place.looksInSpan >= RESTLESS_LOOKS;
}

/** Whether inodes go while a pod changes a directory without end. */
export function isTaking(place: Place, inodesUsed: number | undefined): boolean {
  const looks = place.offences > 0 ? TAKING_LOOKS_AGAIN : TAKING_LOOKS;
  return place.looksInSpan >= looks && hasTaken(place.inodesAtSpan, inodesUsed);
}

/** Whether more inodes are in use than before, by as many as one who takes them takes; false where nobody can tell. */
export function hasTaken(before: number | undefined, now: number | undefined): boolean {
  return before !== undefined && now !== undefined && now - before > TAKEN_INODES;
}

/** Starts counting anew. */
export function forgetChanges(place: Place): void {
  place.changes = 0;
  place.looksInSpan = 0;
  place.spanBegan = Number.NEGATIVE_INFINITY;
}
