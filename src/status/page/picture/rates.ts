import type { NodeView } from "../page-shape.ts";

/** Open vSwitch writes its counters every 5 s; a counter that stands still for longer than twice that is at rest. */
const AT_REST_MS = 12_000;

/** A counter as it was seen last. */
interface Seen {
  readonly packets: number;
  /** When it was seen to change, or first. */
  readonly changedAt: number;
  /** Packets a second; undefined until it changed once. */
  readonly rate?: number;
}

/**
 * Packets a second of each interface, both directions together, from what a switch counts now and then. Between two of
 * its countings the last rate stands.
 */
export class Rates {
  #seen: ReadonlyMap<string, Seen> = new Map();

  /** Takes a look at the node into account. @returns by {@link rateKey}; an interface is in it once its rate is known */
  note({ pods, at }: Pick<NodeView, "pods" | "at">): ReadonlyMap<string, number> {
    const next = new Map<string, Seen>();
    for (const { id, interfaces } of pods) {
      for (const { name, port } of interfaces) {
        if (port?.packets === undefined) continue;
        const key = rateKey(id, name);
        next.set(key, moved(this.#seen.get(key), port.packets, at));
      }
    }
    this.#seen = next;
    return new Map(
      [...next].flatMap(([key, { rate }]) => (rate === undefined ? [] : [[key, rate] as const])),
    );
  }
}

/** What stands for an interface of a pod. */
export function rateKey(podId: string, name: string): string {
  return `${podId} ${name}`;
}

function moved(before: Seen | undefined, packets: number, at: number): Seen {
  // A port that was made anew counts from nought.
  if (before === undefined || packets < before.packets) return { packets, changedAt: at };
  const elapsed = at - before.changedAt;
  if (packets > before.packets) {
    if (elapsed <= 0) return { ...before, packets };
    return { packets, changedAt: at, rate: ((packets - before.packets) * 1000) / elapsed };
  }
  return elapsed > AT_REST_MS ? { packets, changedAt: at, rate: 0 } : before;
}
