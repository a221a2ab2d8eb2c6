/** Two looks are at least so far apart. */
export const LOOKS_MS = 60_000;

/** What a fresh look found about something that may be over. */
export interface Look {
  /** Why it is over, exactly enough that two looks mean the same: a node that is gone, or another one of its name. */
  readonly finding: string;
  /** Identity and version of the object that would be changed. */
  readonly version: string;
  /** What still speaks against it, by uid: pods that may use addresses. */
  readonly holders: readonly string[];
  /**
   * Whether another node has the name by now: then only holders count that an earlier look found, also one before the
   * other node came. Pods that come later are that node's, and have its addresses.
   */
  readonly isReplaced?: boolean;
}

/** What earlier looks found. */
export interface Sighting extends Look {
  /** Since when every look has found the same and no holder, by the monotonic clock; undefined while one is there. */
  readonly sinceMs: number | undefined;
}

/**
 * What is known after another look. One that found something else, another version, or failed, makes it the first.
 * @param look undefined where the thing is in use, where the look failed, or where its result is unknown
 */
export function planSighting(
  before: Sighting | undefined,
  look: Look | undefined,
  nowMs: number,
): Sighting | undefined {
  if (look === undefined) return undefined;
  const isSameVersion = before?.version === look.version;
  const isSame = isSameVersion && before.finding === look.finding;
  const known = isSameVersion && look.isReplaced === true ? new Set(before.holders) : undefined;
  const holders = known === undefined ? look.holders : look.holders.filter((one) => known.has(one));
  if (holders.length > 0) return { ...look, holders, sinceMs: undefined };
  return { ...look, holders, sinceMs: isSame ? (before.sinceMs ?? nowMs) : nowMs };
}

/** Whether two looks, so far apart at least, found the same. */
export function isConfirmed(sighting: Sighting | undefined, gapMs: number, nowMs: number): boolean {
  return sighting?.sinceMs !== undefined && nowMs - sighting.sinceMs >= gapMs;
}

/** Sightings by the name of what was seen. */
export class Sightings {
  readonly #byName = new Map<string, Sighting>();

  has(name: string): boolean {
    return this.#byName.has(name);
  }

  /** Whether another look is not needed yet, because the first one found no holder and the time is not over. */
  isResting(name: string, gapMs: number, nowMs: number): boolean {
    const sighting = this.#byName.get(name);
    return sighting?.sinceMs !== undefined && nowMs - sighting.sinceMs < gapMs;
  }

  /** @returns whether this look confirms an earlier one, at least `gapMs` before */
  note(name: string, look: Look | undefined, gapMs: number, nowMs: number): boolean {
    const sighting = planSighting(this.#byName.get(name), look, nowMs);
    if (sighting === undefined) this.#byName.delete(name);
    else this.#byName.set(name, sighting);
    return isConfirmed(sighting, gapMs, nowMs);
  }

  forget(name: string): void {
    this.#byName.delete(name);
  }

  /** Forgets what is no candidate any more. */
  keep(names: ReadonlySet<string>): void {
    for (const name of this.#byName.keys()) if (!names.has(name)) this.#byName.delete(name);
  }
}
