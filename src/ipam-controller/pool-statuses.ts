// Counts and conditions of pools: written when they have changed, at most every 30 seconds.
import { isDeepStrictEqual } from "node:util";
import { type Condition, poolStatusUpdate } from "../address-objects/address-pool.ts";
import { ADDRESS_POOLS, statusOf } from "../address-objects/resources.ts";
import type { EVENT_REASONS } from "../observe/events/event.ts";
import type { PoolEntry } from "./cluster-view.ts";
import { type ControllerContext, isOvertaken } from "./controller-context.ts";
import { PoolCounter, type PoolCounts } from "./count-pools.ts";
import { holdersOfPool } from "./deletion-guard.ts";
import { conditionsOf, planPoolStatus } from "./plan-pool-status.ts";
import type { WhereaboutsImporter } from "./whereabouts/import-pools.ts";

/** A pool's status is written so often at most, in milliseconds. */
const QUIET_MS = 30_000;
/** Conditions of which an event says that they have become true. */
const WARNED: readonly (readonly [Condition["type"], keyof typeof EVENT_REASONS])[] = [
  ["NearlyFull", "AddressPoolNearlyFull"],
  ["Exhausted", "AddressPoolExhausted"],
];

/** A pool as it was last counted. */
export interface CountedPool extends PoolCounts {
  readonly name: string;
  readonly conditions: readonly Condition[];
}

/** Keeps the status of every pool as the cluster is. */
export class PoolStatuses {
  readonly #context: ControllerContext;
  readonly #importer: Pick<WhereaboutsImporter, "findings"> | undefined;
  readonly #counter: PoolCounter;
  /** By uid: when the status was last written, by the monotonic clock. */
  readonly #writtenMs = new Map<string, number>();
  #revision = -1;
  #hasUnwritten = false;
  #latest: readonly CountedPool[] = [];

  /** @param importer that of addresses of whereabouts; undefined where none are imported */
  constructor(context: ControllerContext, importer?: Pick<WhereaboutsImporter, "findings">) {
    this.#context = context;
    this.#importer = importer;
    this.#counter = new PoolCounter(context.view);
  }

  /** Pools that can be used, as last counted. */
  get latest(): readonly CountedPool[] {
    return this.#latest;
  }

  /** Counts where something has changed, and writes what may be written by now. */
  async pass(signal: AbortSignal): Promise<void> {
    const { view, clock } = this.#context;
    if (this.#revision === view.revision && !this.#hasUnwritten) return;
    this.#revision = view.revision;
    this.#hasUnwritten = false;
    const all = this.#counter.count();
    const now = new Date(clock.now()).toISOString().replace(/\.\d+Z$/, "Z");
    const counted: CountedPool[] = [];
    const entries = [...view.pools.entries.values()];
    const uids = new Set(entries.map(({ uid }) => uid));
    for (const uid of this.#writtenMs.keys()) if (!uids.has(uid)) this.#writtenMs.delete(uid);
    for (const entry of entries) {
      const { name, pool } = entry;
      const counts = all.get(name);
      const hasSpace = typeof pool !== "string" && view.spaces.entries.get(pool.space) !== undefined;
      const importing = this.#importer === undefined ? "off" : this.#importer.findings.get(name);
      const heldBy = entry.guard.isDeleting ? holdersOfPool(name, view) : undefined;
      const facts = {
        entry,
        counts,
        hasSpace,
        heldBy,
        overlaps: this.#counter.overlapsOf(name),
        podCidr: this.#counter.podCidrIn(name),
        importing,
      } as const;
      const status = planPoolStatus(facts, now);
      if (counts !== undefined) counted.push({ name, ...counts, conditions: status.conditions });
      if (!isDeepStrictEqual(status, entry.status)) await this.#write(entry, status, signal);
    }
    this.#latest = counted;
  }

  async #write(
    entry: PoolEntry,
    status: ReturnType<typeof planPoolStatus>,
    signal: AbortSignal,
  ): Promise<void> {
    const { api, clock } = this.#context;
    const { name, uid, resourceVersion } = entry;
    const nowMs = clock.monotonic();
    if (nowMs - (this.#writtenMs.get(uid) ?? Number.NEGATIVE_INFINITY) < QUIET_MS) {
      this.#hasUnwritten = true;
      return;
    }
    try {
      await api.update(statusOf(ADDRESS_POOLS), poolStatusUpdate({ name, resourceVersion }, status), signal);
      this.#writtenMs.set(uid, nowMs);
      this.#warn(entry, status.conditions);
    } catch (error) {
      signal.throwIfAborted();
      this.#hasUnwritten = true;
      // The watch has yet to show what another one has written.
      if (isOvertaken(error)) return;
      this.#writtenMs.set(uid, nowMs);
      this.#context.onFailure({ pool: name }, "the status of a pool of addresses cannot be written", error);
    }
  }

  #warn({ name, uid, status }: PoolEntry, conditions: readonly Condition[]): void {
    const isTrue = (of: readonly Condition[], wanted: string) =>
      of.find(({ type }) => type === wanted)?.status === "True";
    for (const [type, reason] of WARNED) {
      if (!isTrue(conditions, type) || isTrue(conditionsOf(status), type)) continue;
      const note = conditions.find((one) => one.type === type)?.message ?? "";
      this.#context.logger.warn({ pool: name, reason: note }, `an address pool is ${WORDS[type] ?? type}`);
      const regarding = { kind: "AddressPool", name, uid } as const;
      this.#context.post({ regarding, reason, action: "Count", note });
    }
  }
}

const WORDS: Readonly<Partial<Record<Condition["type"], string>>> = {
  NearlyFull: "nearly full",
  Exhausted: "exhausted",
};
