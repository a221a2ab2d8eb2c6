import type { InterfaceStatus, NodeStatus } from "../../status/shape.ts";

/** What goes through a port in one direction, each second. */
export interface Rate {
  readonly packets: number;
  readonly bits: number;
  readonly drops: number;
}

/** An interface and its rates. */
export interface InterfaceRates {
  readonly pod: InterfaceStatus["pod"];
  readonly interface: string;
  readonly port: string;
  /** Absent where the switch does not count, and at the first reading. */
  readonly fromGuest?: Rate;
  readonly toGuest?: Rate;
}

type Traffic = NonNullable<NonNullable<InterfaceStatus["port"]>["traffic"]>;

/** One reading of a port's counters. */
interface Reading {
  readonly at: number;
  readonly traffic: Traffic;
}

/** What is known of a port: the reading at the last change of its counters, and the one at the change before. */
interface Known {
  readonly before?: Reading;
  readonly last: Reading;
  /** Whether `last` was seen to change; else it may be as old as the switch's pause between two writings. */
  readonly isFresh: boolean;
}

/** Open vSwitch writes its counters this often unless told otherwise (other_config:stats-update-interval). */
const WRITTEN_EVERY_MS = 5_000;
/** This long without a change is no traffic. */
const STILL_MS = 2 * WRITTEN_EVERY_MS + 1_000;

/**
 * Makes rates of readings. The switch writes its counters less often than they may be read, and nobody tells when: rates
 * are those between the last two readings at which they had changed, and 0 once they stay as they are.
 */
export class Rates {
  /** By port. */
  #known = new Map<string, Known>();

  /** Takes a reading over; the busiest interface first, then by name. */
  take({ at, interfaces }: Pick<NodeStatus, "at" | "interfaces">): readonly InterfaceRates[] {
    const known = new Map<string, Known>();
    const rates = interfaces.map((one): InterfaceRates => {
      const { pod, name = one.device, portName = "-", port } = one;
      const named = { pod, interface: name, port: portName };
      if (port?.traffic === undefined) return named;
      const next = follow(this.#known.get(portName), { at, traffic: port.traffic });
      known.set(portName, next);
      return { ...named, ...ratesOf(next, at) };
    });
    this.#known = known;
    return rates.sort((one, other) => busy(other) - busy(one) || label(one).localeCompare(label(other)));
  }
}

const NOTHING: Rate = { packets: 0, bits: 0, drops: 0 };
const STILL = { fromGuest: NOTHING, toGuest: NOTHING };

function follow(known: Known | undefined, now: Reading): Known {
  const difference = known === undefined ? -1 : total(now.traffic) - total(known.last.traffic);
  // A port that was made anew counts from 0.
  if (known === undefined || difference < 0) return { last: now, isFresh: false };
  if (difference === 0) return known;
  const isUsable = known.isFresh || now.at - known.last.at >= WRITTEN_EVERY_MS;
  return { ...(isUsable ? { before: known.last } : {}), last: now, isFresh: true };
}

function ratesOf({ before, last }: Known, at: number): Pick<InterfaceRates, "fromGuest" | "toGuest"> {
  const unchangedMs = at - last.at;
  if (before === undefined) return unchangedMs >= WRITTEN_EVERY_MS ? STILL : {};
  return unchangedMs >= STILL_MS ? STILL : between(before, last);
}

function total({ fromGuest, toGuest }: Traffic): number {
  return fromGuest.packets + fromGuest.dropped + toGuest.packets + toGuest.dropped;
}

function between(before: Reading, last: Reading): Pick<InterfaceRates, "fromGuest" | "toGuest"> {
  const seconds = (last.at - before.at) / 1000;
  const rate = (side: keyof Traffic): Rate => {
    const [was, is] = [before.traffic[side], last.traffic[side]];
    return {
      packets: (is.packets - was.packets) / seconds,
      bits: ((is.bytes - was.bytes) * 8) / seconds,
      drops: (is.dropped - was.dropped) / seconds,
    };
  };
  return { fromGuest: rate("fromGuest"), toGuest: rate("toGuest") };
}

function busy({ fromGuest, toGuest }: InterfaceRates): number {
  return (fromGuest?.packets ?? 0) + (toGuest?.packets ?? 0);
}

function label({ pod, interface: name }: InterfaceRates): string {
  return `${pod.namespace}/${pod.name}/${name}`;
}
