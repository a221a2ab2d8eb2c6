// Addresses of whereabouts become ours: the free ones are kept from it, and those that pods have stay in blocks of kind
// Foreign until the pods are gone. docs/decisions/0017-keeping-addresses-from-whereabouts.md says why this is safe.
import { type Family, formatAddress } from "../../addresses/address.ts";
import { type Range, RangeSet } from "../../addresses/range-set.ts";
import { describeThrown } from "../../failure/failure.ts";
import type { KubeObject } from "../../kube-api/client.ts";
import { type ControllerContext, isOvertaken } from "../controller-context.ts";
import { LOOKS_MS } from "../sightings.ts";
import type { ImportFinding, ImportProblem } from "./finding.ts";
import { ForeignBlocks, type LookedAt } from "./foreign-blocks.ts";
import { parseReservation, whereaboutsResources } from "./objects.ts";
import { type ImportingPool, type KeptAddresses, WhereaboutsRanges } from "./whereabouts-ranges.ts";

/** What earlier looks found of a pool. */
interface Progress {
  /** Two looks agreed on them: they are ours. */
  readonly confirmed: RangeSet;
  /** Kept from whereabouts, or in a block of kind Foreign, at every look since this time of the monotonic clock. */
  readonly pending?: { readonly sinceMs: number; readonly addresses: RangeSet };
}

const NOTHING: Progress = { confirmed: RangeSet.EMPTY };
/** Addresses in a message. */
const MAX_NAMES = 5;

/** Imports addresses of whereabouts, and remembers what it saw from pass to pass. */
export class WhereaboutsImporter {
  readonly #context: ControllerContext;
  readonly #namespace: string;
  readonly #blocks: ForeignBlocks;
  /** By uid of the pool. */
  readonly #progress = new Map<string, Progress>();
  #findings: ReadonlyMap<string, ImportFinding> = new Map();

  /** @param namespace that of whereabouts' objects */
  constructor(context: ControllerContext, namespace: string) {
    this.#context = context;
    this.#namespace = namespace;
    this.#blocks = new ForeignBlocks(context);
  }

  /** By the pool's name, as of the last pass. */
  get findings(): ReadonlyMap<string, ImportFinding> {
    return this.#findings;
  }

  /** One look at all pools with addresses of whereabouts. Where it fails no further address becomes ours. */
  async pass(signal: AbortSignal): Promise<void> {
    const { view, onFailure } = this.#context;
    const pools = [...view.pools.entries.values()].flatMap(({ pool }): ImportingPool[] => {
      if (typeof pool === "string" || pool.whereabouts === undefined || pool.isDeleting) return [];
      const { whereabouts } = pool;
      return view.spaces.entries.get(pool.space) === undefined ? [] : [{ ...pool, whereabouts }];
    });
    const uids = new Set(pools.map(({ uid }) => uid));
    for (const uid of this.#progress.keys()) if (!uids.has(uid)) this.#progress.delete(uid);
    if (pools.length === 0 && this.#findings.size === 0) return;
    // Makes the pools be counted.
    view.revision += 1;
    if (pools.length === 0) {
      this.#findings = new Map();
      return;
    }
    try {
      this.#findings = await this.#look(pools, signal);
    } catch (error) {
      signal.throwIfAborted();
      this.#findings = new Map(pools.map((pool) => [pool.name, this.#failed(pool, error)]));
      this.#blocks.forget();
      // Where whereabouts has just written, the next look finds what.
      if (!isOvertaken(error)) onFailure({}, "addresses of whereabouts cannot be imported", error);
    }
  }

  /** Every IPPool is written before the reservations are read, because whereabouts writes them in that order. */
  async #look(
    pools: readonly ImportingPool[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, ImportFinding>> {
    const { api, clock } = this.#context;
    const startedMs = clock.monotonic();
    const ranges = await WhereaboutsRanges.read(api, this.#namespace, signal);
    const kept: (readonly [ImportingPool, KeptAddresses])[] = [];
    for (const pool of pools) kept.push([pool, await ranges.keep(pool, signal)]);
    const { reservations: resource } = whereaboutsResources(this.#namespace);
    const { objects } = await api.list(resource, {}, signal);
    const looked = kept.map(([pool, own]) => ({ ...own, pool, taken: takenOf(pool, own, objects) }));
    const refused = await this.#blocks.pass(looked, startedMs, signal);
    return new Map(looked.map((one) => [one.pool.name, this.#settle(one, refused, startedMs)]));
  }

  /** What has become ours: at two looks it was kept from whereabouts, or in a block that no agent can take. */
  #settle(
    { pool, kept, taken, problem }: LookedAt,
    refused: ReadonlySet<string>,
    startedMs: number,
  ): ImportFinding {
    const { clock, logger } = this.#context;
    const { uid, name, family, configured, whereabouts } = pool;
    const inRefused = [...taken].filter((value) => refused.has(this.#blocks.blockOf(pool, value)[0]));
    const settled = configured.and(kept).minus(setOf(inRefused));
    const { confirmed, pending } = this.#progress.get(uid) ?? NOTHING;
    const addresses = pending?.addresses.and(settled) ?? settled;
    const isConfirmed = pending !== undefined && startedMs - pending.sinceMs >= LOOKS_MS;
    const imported = (isConfirmed ? confirmed.plus(addresses) : confirmed).and(settled);
    this.#progress.set(uid, {
      confirmed: imported,
      pending:
        pending === undefined || isConfirmed
          ? { sinceMs: clock.monotonic(), addresses: settled }
          : { ...pending, addresses },
    });
    const more = imported.minus(confirmed).minus(whereabouts.imported).size;
    if (more > 0n) logger.info({ pool: name, addresses: Number(more) }, "addresses of whereabouts are ours");
    return {
      imported,
      left: taken.size,
      waiting: configured.minus(imported).minus(whereabouts.imported).size,
      problem: inRefused.length === 0 ? problem : conflictOf(inRefused, family, whereabouts.imported),
    };
  }

  #failed({ uid }: ImportingPool, error: unknown): ImportFinding {
    const { confirmed } = this.#progress.get(uid) ?? NOTHING;
    this.#progress.set(uid, { confirmed });
    const message = `whereabouts cannot be checked: ${describeThrown(error)}`;
    const problem = { reason: "CheckFailed", message } as const;
    return { imported: confirmed, left: undefined, waiting: undefined, problem };
  }
}

/** The pool's addresses that pods have from whereabouts. */
function takenOf(
  { configured, family, whereabouts: { networkName } }: ImportingPool,
  { kept, pools }: KeptAddresses,
  reservations: readonly KubeObject[],
): ReadonlySet<bigint> {
  const ofPools = pools.flatMap(({ entries }) =>
    entries.flatMap(({ address, pod }) => (pod === undefined ? [] : [address])),
  );
  const ofReservations = reservations
    .flatMap((object) => parseReservation(object, networkName).addresses)
    .flatMap((one) => (one.family === family ? [one.value] : []));
  const wanted = configured.and(kept);
  return new Set([...ofPools, ...ofReservations].filter((value) => wanted.has(value)));
}

function conflictOf(values: readonly bigint[], family: Family, imported: RangeSet): ImportProblem {
  const names = values.slice(0, MAX_NAMES).map((value) => formatAddress({ family, value }));
  // What is imported may have been handed out by an agent; other addresses have not.
  const isDoubled = values.some((value) => imported.has(value));
  const message = isDoubled
    ? `whereabouts has handed out addresses that are ours: ${names.join(", ")}`
    : `Pods have addresses of whereabouts in blocks that nodes have: ${names.join(", ")}. They are imported when the pods are gone`;
  return { reason: isDoubled ? "HandedOutTwice" : "BlockOfNode", message };
}

function setOf(values: readonly bigint[]): RangeSet {
  return RangeSet.of(values.map((value): Range => ({ first: value, last: value })));
}
