import type { PageNode } from "../page-shape.ts";

/** Open vSwitch writes its counters every 5 s; a counter that does not change for longer than twice that is at rest. */
const AT_REST_MS = 12_000;

/** A counter's value, and when it was first read with it. */
interface Reading {
  readonly packets: number;
  readonly at: number;
}

interface Counter {
  readonly last: Reading;
  /**
   * The readings at which the counter had changed, oldest first. The first reading of all is not among them, because
   * its age is not known.
   */
  readonly changes: readonly Reading[];
  readonly rate?: number;
}

/** Changes that a rate spans: the switch counts every 5 s and is read every 2 s, so one interval alone is 4 to 6 s. */
const SPAN = 2;

/** Packets a second of each interface, both directions together, from counters that the switch updates now and then. */
export class Rates {
  #counters: ReadonlyMap<string, Counter> = new Map();

  /** Adds a reading of the node. @returns rates by {@link rateKey}, of the interfaces whose rate is known */
  note({ pods, at }: Pick<PageNode, "pods" | "at">): ReadonlyMap<string, number> {
    const next = new Map<string, Counter>();
    for (const { id, interfaces } of pods) {
      for (const { name, port } of interfaces) {
        if (port?.traffic === undefined) continue;
        const packets = port.traffic.fromGuest.packets + port.traffic.toGuest.packets;
        const key = rateKey(id, name);
        next.set(key, updated(this.#counters.get(key), { packets, at }));
      }
    }
    this.#counters = next;
    return new Map([...next].flatMap(([key, { rate }]) => (rate === undefined ? [] : [[key, rate]])));
  }
}

/** Key of a pod's interface. */
export function rateKey(podId: string, name: string): string {
  return `${podId} ${name}`;
}

function updated(before: Counter | undefined, now: Reading): Counter {
  // The counters of a port that was made again begin at 0; a clock that was set back makes all readings useless.
  if (before === undefined || now.packets < before.last.packets || now.at < before.last.at) {
    return { last: now, changes: [] };
  }
  if (now.packets === before.last.packets) {
    return now.at - before.last.at > AT_REST_MS ? { last: now, changes: [], rate: 0 } : before;
  }
  const changes = [...before.changes, now].slice(-1 - SPAN);
  const [oldest = now] = changes;
  if (now.at === oldest.at) return { ...before, last: now, changes };
  const rate = ((now.packets - oldest.packets) * 1000) / (now.at - oldest.at);
  return { last: now, changes, rate };
}
