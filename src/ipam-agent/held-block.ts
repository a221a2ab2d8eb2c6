import type { Prefix } from "../addresses/address.ts";
import type { RangeSet } from "../addresses/range-set.ts";
import { rangeOf } from "../addresses/subnet.ts";
import type { BlockEntry } from "./journal-entries.ts";

/** How many addresses of a block a pool can hand out now, cannot because they rest, and has handed out. */
export interface BlockCounts {
  free: number;
  resting: number;
  used: number;
}

/** A block of this node, and what became of each of its addresses. Times are milliseconds of the monotonic clock. */
export class HeldBlock {
  readonly name: string;
  readonly prefix: Prefix;
  entry: BlockEntry;
  /** The API server may show it as another's: nothing is handed out until that is clear. */
  isSuspended = false;
  /** When its last address was released, or it was taken or read from disk; undefined while it has one in use. */
  idleSinceMs: number | undefined;
  /** What the API server was last told of it: addresses in use. */
  reportedUsed: number | undefined;
  /** By address: the key of the allocation that has it. */
  readonly #holders = new Map<bigint, string>();
  readonly #releasedAtMs = new Map<bigint, number>();
  /** When the others were released, as far as is known. */
  #restsSinceMs: number | undefined;

  constructor(name: string, prefix: Prefix, entry: BlockEntry, nowMs: number) {
    this.name = name;
    this.prefix = prefix;
    this.entry = entry;
    this.idleSinceMs = nowMs;
    if (entry.isReused) this.rest(nowMs);
  }

  /** All addresses rest from now on. */
  rest(nowMs: number): void {
    this.#restsSinceMs = nowMs;
    for (const address of this.#releasedAtMs.keys()) this.#releasedAtMs.set(address, nowMs);
  }

  /** Whether addresses may be handed out. */
  get isUsable(): boolean {
    return this.entry.state === "bound" && !this.isSuspended;
  }

  get used(): number {
    return this.#holders.size;
  }

  holderOf(address: bigint): string | undefined {
    return this.#holders.get(address);
  }

  hold(address: bigint, key: string): void {
    this.#holders.set(address, key);
    this.idleSinceMs = undefined;
  }

  /** Takes back a hold that was never answered. */
  unhold(address: bigint, nowMs: number): void {
    this.#holders.delete(address);
    if (this.used === 0) this.idleSinceMs = nowMs;
  }

  /** The address was released: it rests from now on. */
  release(address: bigint, nowMs: number): void {
    this.#releasedAtMs.set(address, nowMs);
    this.unhold(address, nowMs);
  }

  /** Addresses that were released once. */
  get released(): Iterable<bigint> {
    return this.#releasedAtMs.keys();
  }

  /** Milliseconds until an address may be handed out again; 0 or less where it may. */
  restMs(address: bigint, nowMs: number, cooldownMs: number): number {
    const releasedAtMs = this.#releasedSince(address);
    return releasedAtMs === undefined ? 0 : releasedAtMs + cooldownMs - nowMs;
  }

  /** The lowest free address that was never handed out, else the one that was released longest ago and has rested. */
  pick(usable: RangeSet, nowMs: number, cooldownMs: number): bigint | undefined {
    let longest: { readonly address: bigint; readonly sinceMs: number } | undefined;
    for (const address of this.#of(usable)) {
      if (this.#holders.has(address)) continue;
      const sinceMs = this.#releasedSince(address);
      if (sinceMs === undefined) return address;
      if (longest === undefined || sinceMs < longest.sinceMs) longest = { address, sinceMs };
    }
    return longest !== undefined && longest.sinceMs + cooldownMs <= nowMs ? longest.address : undefined;
  }

  counts(usable: RangeSet, nowMs: number, cooldownMs: number): BlockCounts {
    const counts = { free: 0, resting: 0, used: 0 };
    for (const address of this.#of(usable)) {
      if (this.#holders.has(address)) counts.used++;
      else if (this.restMs(address, nowMs, cooldownMs) > 0) counts.resting++;
      else counts.free++;
    }
    return counts;
  }

  #releasedSince(address: bigint): number | undefined {
    return this.#releasedAtMs.get(address) ?? this.#restsSinceMs;
  }

  #of(usable: RangeSet): Iterable<bigint> {
    return usable.clip(rangeOf(this.prefix)).values();
  }
}
