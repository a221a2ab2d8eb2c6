// Cluster API's IPAM provider: which claims, addresses and pools need a look, and what is done at one.
import { NAMESPACED_POOLS } from "../../address-objects/resources.ts";
import type { Address } from "../../addresses/address.ts";
import { describeThrown } from "../../failure/failure.ts";
import type { ApiFailure } from "../../kube-api/api-failure.ts";
import type { KubeObject } from "../../kube-api/client.ts";
import { linked, orAborted } from "../../sync/deadlines.ts";
import { WorkQueue } from "../../sync/work-queue.ts";
import { type ControllerContext, isOvertaken } from "../controller-context.ts";
import { readNow } from "../look.ts";
import { Mirror } from "../mirror.ts";
import { fulfilClaim, ownerOfClaim } from "./fulfil-claim.ts";
import { ensureNamespacedPool } from "./namespaced-pools.ts";
import {
  addressPoolOf,
  type ClaimEntry,
  type ClusterApiResources,
  claimOf,
  type IpAddressEntry,
  ipAddressOf,
  isPaused,
  keyOf,
  PROTECT_FINALIZER,
  RELEASE_FINALIZER,
} from "./objects.ts";
import { type ProviderContext, readPool } from "./provider-context.ts";
import { hasFreeAddress, PublishedAddresses } from "./published-addresses.ts";
import { ClaimedReclaimer } from "./reclaim-claimed.ts";
import { endIpAddress, releaseClaim } from "./release-claim.ts";

/** Between two looks at what is not as it should be. */
const RESYNC_MS = 30_000;
/** From a change of pools, blocks or clusters to the looks that it causes: many changes are one. */
const SETTLE_MS = 1_000;
const WORKERS = 2;

/**
 * Serves the claims that name our pools, with the versions that the cluster has. What the watches show only says where to
 * look; every look reads what it decides from at the API server. Two providers at once do the same work twice: an allocation
 * and an IPAddress are taken by their creation, and every other write has the version of what was read.
 */
export class ClusterApiProvider {
  readonly claims: Mirror<ClaimEntry | undefined>;
  readonly #context: ProviderContext;
  readonly #addresses: Mirror<IpAddressEntry | undefined>;
  readonly #clusters: Mirror<boolean> | undefined;
  readonly #pools: Mirror<true>;
  readonly #queue: WorkQueue;
  readonly #reclaimer = new ClaimedReclaimer();
  readonly #published = new PublishedAddresses();
  /** How many claims name each AddressPool, and how many of them have no address yet. */
  readonly #claimsOf = new Map<string, { all: number; waiting: number }>();
  #revision = 0;
  /** Version of the AddressPool of each NamespacedAddressPool when it was looked at. */
  readonly #seenPools = new Map<string, string>();
  #hasChanged = true;

  constructor(context: ControllerContext, resources: ClusterApiResources, random: () => number) {
    const isPublished = (space: string, address: Address) => this.#isPublished(space, address);
    this.#context = { ...context, resources, random, isPublished };
    const { claims, addresses, clusters } = resources;
    this.claims = new Mirror<ClaimEntry | undefined>({
      ...{ resource: claims, keyOf, entryOf: claimOf },
      onChange: (key, before, after) => {
        this.#countClaim(before, -1);
        this.#countClaim(after, 1);
        if (after === undefined) this.#hasChanged = true;
        else if (this.#isUnsettled(key, after)) this.#queue.add(`claim/${key}`);
      },
    });
    this.#addresses = new Mirror<IpAddressEntry | undefined>({
      ...{ resource: addresses, keyOf, entryOf: ipAddressOf },
      onChange: (key, before, after) => {
        this.#published.note(key, before?.address, after?.address);
        const entry = after ?? before;
        if (entry !== undefined && this.claims.isSynced) this.#addClaimOf(entry);
      },
    });
    const onChange = () => {
      this.#hasChanged = true;
    };
    this.#clusters =
      clusters && new Mirror<boolean>({ resource: clusters, keyOf, entryOf: isPaused, onChange });
    this.#pools = new Mirror<true>({
      ...{ resource: NAMESPACED_POOLS, keyOf, entryOf: (): true => true },
      onChange: (key) => {
        this.#queue.add(`pool/${key}`);
        this.#hasChanged = true;
      },
    });
    const { clock, logger } = context;
    this.#queue = new WorkQueue({
      ...{ clock, workers: WORKERS },
      work: (key, signal) => this.#look(key, signal),
      resync: { everyMs: RESYNC_MS, keys: () => this.#candidates() },
      onFailure: (key, error, retryMs) => {
        if (isOvertaken(error)) return;
        const fields = { claim: key, reason: describeThrown(error) };
        if (retryMs !== undefined && retryMs < RESYNC_MS)
          logger.debug(fields, "a look failed, it is repeated");
        else logger.warn(fields, "an object of Cluster API cannot be brought in line");
      },
    });
  }

  /** Grows when the pools may have changed that claims name. */
  get revision(): number {
    return this.#revision;
  }

  /** How many claims wait for an address of a pool, by the name of its AddressPool; undefined where no claim names it. */
  waitingFor(name: string): number | undefined {
    return this.#claimsOf.get(name)?.waiting;
  }

  /** How many claims there are, by what they are waiting for. */
  get states(): Readonly<Record<"ready" | "waiting" | "releasing", number>> {
    const states = { ready: 0, waiting: 0, releasing: 0 };
    for (const claim of this.claims.entries.values())
      if (claim !== undefined)
        states[claim.isDeleting ? "releasing" : claim.isReady ? "ready" : "waiting"] += 1;
    return states;
  }

  /** Follows the cluster and serves its claims until the signal fires; rejects with its reason then. */
  async run(signal: AbortSignal): Promise<never> {
    const { api, clock, logger, view, random } = this.#context;
    const onFailure = (failure: ApiFailure) =>
      logger[failure.isRetryable ? "debug" : "warn"](
        { reason: failure.message },
        "a watch for Cluster API failed",
      );
    const mirrors = [this.claims, this.#addresses, this.#pools, ...(this.#clusters ? [this.#clusters] : [])];
    return linked(signal, (ended) => {
      const following = mirrors.map((mirror) => mirror.follow({ api, clock, onFailure, random }, ended));
      const work = async (): Promise<never> => {
        await orAborted(Promise.all([view.whenSynced(), ...mirrors.map((one) => one.whenSynced())]), ended);
        await Promise.all([this.#queue.run(ended), this.#notice(ended)]);
        throw ended.reason;
      };
      return Promise.race([...following, work()]);
    });
  }

  /** A pool that comes late, a freed address or a cluster that goes on: claims that wait are looked at once more. */
  async #notice(signal: AbortSignal): Promise<never> {
    const { clock, view } = this.#context;
    let revision = -1;
    for (;;) {
      if (this.#hasChanged || revision !== view.revision) {
        this.#hasChanged = false;
        revision = view.revision;
        for (const key of this.#hopefulClaims()) this.#queue.add(key);
        for (const key of this.#changedPools()) this.#queue.add(key);
      }
      await clock.sleep(SETTLE_MS, signal);
    }
  }

  /** Claims for which the watches do not show that nothing has changed. */
  *#hopefulClaims(): Generator<string> {
    const { view } = this.#context;
    const free = new Map<string, boolean>();
    for (const [key, claim] of this.claims.entries) {
      if (claim === undefined || !this.#isUnsettled(key, claim)) continue;
      const { isDeleting, reason } = claim;
      const name = addressPoolOf(claim);
      const pool = view.pools.entries.get(name)?.pool;
      if (!isDeleting && reason === "PoolNotReady" && pool === undefined) continue;
      if (!isDeleting && reason === "PoolExhausted" && typeof pool === "object") {
        const hasFree = free.get(name) ?? hasFreeAddress(view, pool);
        free.set(name, hasFree);
        if (!hasFree) continue;
      }
      yield `claim/${key}`;
    }
  }

  /** Pools of namespaces whose AddressPool has changed since it was looked at, or is left over. */
  *#changedPools(): Generator<string> {
    const { entries } = this.#context.view.pools;
    for (const { namespacedPool: key, resourceVersion } of entries.values()) {
      if (key === undefined || this.#seenPools.get(key) === resourceVersion) continue;
      this.#seenPools.set(key, resourceVersion);
      yield `pool/${key}`;
    }
    for (const key of this.#pools.entries.keys())
      if (!entries.has(key.replace("/", ".")) && this.#seenPools.delete(key)) yield `pool/${key}`;
  }

  /** Keys of all that may not be as it should. */
  *#candidates(): Generator<string> {
    const { view } = this.#context;
    const uids = new Set<string>();
    for (const [key, claim] of this.claims.entries) {
      if (claim === undefined) continue;
      uids.add(claim.uid);
      if (this.#isUnsettled(key, claim)) yield `claim/${key}`;
    }
    for (const [key, address] of this.#addresses.entries)
      if (address !== undefined && this.#isLeftOver(address)) yield `address/${key}`;
    for (const key of this.#pools.entries.keys()) yield `pool/${key}`;
    for (const { namespacedPool } of view.pools.entries.values())
      if (namespacedPool !== undefined && !this.#pools.entries.has(namespacedPool))
        yield `pool/${namespacedPool}`;
    const left = new Set<string>();
    for (const [name, { claimUid }] of view.allocations.entries)
      if (claimUid !== undefined && !uids.has(claimUid)) left.add(name);
    this.#reclaimer.keep(left);
    for (const name of left) yield `allocation/${name}`;
  }

  /** Whether a claim lacks anything, and nothing that the watches show forbids to give it. */
  #isUnsettled(key: string, claim: ClaimEntry): boolean {
    const { view } = this.#context;
    const { isDeleting, finalizers, name, addressRef, isReady, namespace, clusterName } = claim;
    const isClusterPaused = this.#clusters?.entries.get(`${namespace}/${clusterName}`);
    if (claim.isPaused || isClusterPaused === true) return false;
    if (clusterName !== undefined && isClusterPaused === undefined && !isDeleting) return false;
    if (isDeleting) return finalizers.includes(RELEASE_FINALIZER);
    const address = this.#addresses.entries.get(key);
    const isPublished = address?.claimUid === claim.uid && address.finalizers.includes(PROTECT_FINALIZER);
    const isComplete =
      finalizers.includes(RELEASE_FINALIZER) && isReady && addressRef === name && isPublished;
    return !isComplete || !view.claimUids.has(claim.uid);
  }

  #isLeftOver({ isDeleting, finalizers, namespace, claimName, claimUid }: IpAddressEntry): boolean {
    if (!isDeleting || !finalizers.includes(PROTECT_FINALIZER)) return false;
    const claim = this.claims.entries.get(`${namespace}/${claimName}`);
    return claim === undefined || (claimUid !== undefined && claim.uid !== claimUid);
  }

  #addClaimOf(entry: IpAddressEntry): void {
    const key = `${entry.namespace}/${entry.claimName}`;
    const claim = this.claims.entries.get(key);
    if (claim !== undefined && this.#isUnsettled(key, claim)) this.#queue.add(`claim/${key}`);
    if (this.#isLeftOver(entry)) this.#queue.add(`address/${entry.namespace}/${entry.name}`);
  }

  async #look(key: string, signal: AbortSignal): Promise<void> {
    const [kind, ...rest] = key.split("/");
    const [namespace = "", name = ""] = rest;
    if (kind === "claim") return this.#lookAtClaim({ namespace, name }, signal);
    if (kind === "address") return endIpAddress(this.#context, { namespace, name }, signal);
    if (kind === "pool") return ensureNamespacedPool(this.#context, { namespace, name }, signal);
    return this.#reclaimer.look(this.#context, namespace, signal);
  }

  async #lookAtClaim(
    { namespace, name }: { readonly namespace: string; readonly name: string },
    signal: AbortSignal,
  ): Promise<void> {
    const { api, resources } = this.#context;
    const object = await readNow(api, { ...resources.claims, namespace }, name, signal);
    const claim = object && claimOf(object);
    if (object === undefined || claim === undefined || claim.isPaused) return;
    const cluster = await this.#clusterOf(claim, signal);
    if (cluster !== undefined && isPaused(cluster)) return;
    // Its pause cannot be known; the clean-up of a cluster that is gone must not wait for it.
    if (cluster === undefined && claim.clusterName !== undefined && !claim.isDeleting) return;
    const pool = await readPool(this.#context, claim, signal);
    if (pool.isPaused) return;
    if (claim.isDeleting)
      return releaseClaim(this.#context, object, claim, pool, ownerOfClaim(claim), signal);
    return fulfilClaim(this.#context, object, claim, pool, signal);
  }

  async #clusterOf(
    { namespace, clusterName }: ClaimEntry,
    signal: AbortSignal,
  ): Promise<KubeObject | undefined> {
    const { api, resources } = this.#context;
    if (clusterName === undefined || resources.clusters === undefined) return undefined;
    return readNow(api, { ...resources.clusters, namespace }, clusterName, signal);
  }

  #countClaim(claim: ClaimEntry | undefined, change: 1 | -1): void {
    if (claim === undefined || claim.isDeleting) return;
    const name = addressPoolOf(claim);
    const counts = this.#claimsOf.get(name) ?? { all: 0, waiting: 0 };
    counts.all += change;
    if (!claim.isReady) counts.waiting += change;
    if (counts.all > 0) this.#claimsOf.set(name, counts);
    else this.#claimsOf.delete(name);
    if (counts.all === 0 || change === 1) this.#revision += 1;
  }

  #isPublished(space: string, address: Address): boolean {
    const { pools } = this.#context.view;
    return this.#published.keysOf(address).some((key) => {
      const entry = this.#addresses.entries.get(key);
      const pool = entry && pools.entries.get(addressPoolOf(entry))?.pool;
      return pool !== undefined && (typeof pool === "string" || pool.space === space);
    });
  }
}
