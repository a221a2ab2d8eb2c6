import type { AddressPool } from "../address-objects/address-pool.ts";
import { describeThrown } from "../failure/failure.ts";
import type { ApiFailure } from "../kube-api/api-failure.ts";
import type { LogFields } from "../logging/fields.ts";
import type { Logger } from "../logging/logger.ts";
import type { NodeEvent } from "../observe/events/event.ts";
import type { Clock } from "../sync/clock.ts";
import { linked, orAborted } from "../sync/deadlines.ts";
import { ClaimsController } from "./claims/claims-controller.ts";
import { ClusterApi, type Discovery } from "./cluster-api/cluster-api.ts";
import { ClusterView } from "./cluster-view.ts";
import type { ControllerApi, ControllerContext, ControllerCounts } from "./controller-context.ts";
import { ensureDefaultSpace } from "./default-space.ts";
import { DeletionGuard } from "./deletion-guard.ts";
import { type CountedPool, PoolStatuses } from "./pool-statuses.ts";
import { AllocationReclaimer } from "./reclaim-allocations.ts";
import { BlockReclaimer } from "./reclaim-blocks.ts";
import { SharedBlockReturner } from "./return-shared-blocks.ts";
import { ensureSharedBlocks } from "./shared-blocks.ts";
import { WhereaboutsImporter } from "./whereabouts/import-pools.ts";

/** What the controller works with. */
export interface ControllerOptions {
  readonly api: ControllerApi;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Posts a Kubernetes event; default none is posted. */
  readonly post?: (event: NodeEvent) => void;
  /** Namespace of whereabouts' objects; default nothing is imported from it. */
  readonly whereabouts?: string | undefined;
  /** From 0 up to 1, for pauses of watches and free addresses; default Math.random. */
  readonly random?: () => number;
  /** Whether it serves IPAMClaims; default false, because then their kinds need not exist. */
  readonly hasClaims?: boolean;
  /** Serves the claims of Cluster API, in the version that this finds; default not. */
  readonly clusterApi?: Discovery | undefined;
  /** Whether it makes the claims of VMs, too; default false. */
  readonly managesClaims?: boolean;
}

/** Between two looks at what may be gone, in milliseconds; sooner when a node is removed or replaced. */
const PASS_MS = 30_000;
const MIN_PASS_MS = 5_000;
/** Between two counts of what has changed, and two looks at shared blocks; of the latter sooner when claims wait. */
const COUNT_MS = 2_000;
const MIN_SUPPLY_MS = 100;

/**
 * Gives back blocks and addresses of nodes that are gone, makes shared blocks, and keeps the pools' status. It needs no
 * Lease to be safe: every write has the version of what it was decided from, or is a create. Two of them only do the same
 * work twice.
 */
export class IpamController {
  readonly view = new ClusterView();
  readonly counts: ControllerCounts = {
    ...{ blocksQuarantined: 0, blocksDeleted: 0, blocksShared: 0, allocationsFreed: 0 },
    ...{ claimsPublished: 0, claimsRefused: 0, passesOk: 0, passesFailed: 0 },
  };
  readonly #options: ControllerOptions;
  readonly #blocks: BlockReclaimer;
  readonly #allocations: AllocationReclaimer;
  readonly #importer: WhereaboutsImporter | undefined;
  readonly #sharedBlocks: SharedBlockReturner;
  readonly #guard: DeletionGuard;
  readonly #statuses: PoolStatuses;
  /** Where claims are served. */
  readonly claims: ClaimsController | undefined;
  /** Where the claims of Cluster API are served. */
  readonly clusterApi: ClusterApi | undefined;
  readonly #context: ControllerContext;
  #hasFailed = false;
  #lastPassAt: number | undefined;
  /** Of the view: shared blocks are enough for it. */
  #sharedRevision = -1;

  constructor(options: ControllerOptions) {
    const { api, clock, logger, post = () => undefined } = options;
    this.#options = options;
    const onFailure = (fields: LogFields, what: string, error: unknown) => {
      this.#hasFailed = true;
      logger.warn({ ...fields, reason: describeThrown(error) }, what);
    };
    const { view, counts } = this;
    this.#context = { api, view, clock, logger, counts, post, onFailure };
    this.#blocks = new BlockReclaimer(this.#context);
    this.#allocations = new AllocationReclaimer(this.#context);
    this.#sharedBlocks = new SharedBlockReturner(this.#context, (pool) => this.#waitingFor(pool));
    this.#guard = new DeletionGuard(this.#context);
    const {
      hasClaims = false,
      managesClaims = false,
      random = Math.random,
      clusterApi,
      whereabouts,
    } = options;
    this.claims = hasClaims ? new ClaimsController(this.#context, random, managesClaims) : undefined;
    this.clusterApi = clusterApi && new ClusterApi(this.#context, clusterApi, random);
    this.#importer =
      whereabouts === undefined ? undefined : new WhereaboutsImporter(this.#context, whereabouts);
    this.#statuses = new PoolStatuses(this.#context, this.#importer);
  }

  /** Pools as last counted. */
  get pools(): readonly CountedPool[] {
    return this.#statuses.latest;
  }

  /** When the last pass without a failure ended, in milliseconds since the epoch. */
  get lastPassAt(): number | undefined {
    return this.#lastPassAt;
  }

  /** Follows the cluster and does its work until the signal fires; rejects with its reason then. */
  run(signal: AbortSignal): Promise<never> {
    return linked(signal, async (ended) => {
      const work = async (): Promise<never> => {
        await orAborted(this.view.whenSynced(), ended);
        const claims = this.claims === undefined ? [] : [this.claims.run(ended)];
        return Promise.race([this.#passes(ended), this.#supplies(ended), this.#counts(ended), ...claims]);
      };
      const clusterApi = this.clusterApi === undefined ? [] : [this.clusterApi.run(ended)];
      return Promise.race([this.follow(ended), work(), ...clusterApi]);
    });
  }

  /** Follows the cluster until the signal fires; rejects with its reason then. */
  async follow(signal: AbortSignal): Promise<never> {
    const { api, clock, logger, random = Math.random } = this.#options;
    const onFailure = (failure: ApiFailure) => {
      const fields = { reason: failure.message };
      if (failure.isRetryable) logger.debug(fields, "a watch was interrupted");
      else logger.warn(fields, "a watch is refused");
    };
    const options = { api, clock, onFailure, random };
    const { spaces, pools, blocks, allocations, nodes, pods } = this.view;
    const ofPods = async (): Promise<never> => {
      // Only beside allocations: a cluster has many, and they change often.
      await orAborted(this.view.whenAllocated(), signal);
      return pods.follow(options, signal);
    };
    return Promise.race([
      ...[spaces, pools, blocks, allocations, nodes].map((mirror) => mirror.follow(options, signal)),
      ofPods(),
      ...(this.claims === undefined ? [] : [this.claims.follow(options, signal)]),
    ]);
  }

  /** One look at all that may be gone. What fails is logged, counted, and in use. */
  async pass(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    this.#hasFailed = false;
    await this.#blocks.pass(signal);
    if (this.view.pods.isSynced) await this.#allocations.pass(signal);
    await this.claims?.pass(signal);
    await this.#importer?.pass(signal);
    await this.#sharedBlocks.pass(signal);
    await this.#guard.pass(signal);
    if (this.#hasFailed) {
      this.counts.passesFailed += 1;
      return;
    }
    this.counts.passesOk += 1;
    this.#lastPassAt = clock.now();
  }

  /** Counts pools, and writes what has changed of their status. */
  async count(signal: AbortSignal): Promise<void> {
    // Pools would be without their space until the watch shows it.
    if (await ensureDefaultSpace(this.#context, signal)) await this.#statuses.pass(signal);
  }

  /** Makes the shared blocks that pools need. */
  async supply(signal: AbortSignal): Promise<void> {
    // All of them only grow.
    const revision =
      this.view.revision + (this.claims?.view.revision ?? 0) + (this.clusterApi?.revision ?? 0);
    if (this.#sharedRevision === revision) return;
    const isComplete = await ensureSharedBlocks(this.#context, (pool) => this.#waitingFor(pool), signal);
    if (isComplete) this.#sharedRevision = revision;
  }

  /** How many claims wait for an address of a pool; undefined where it needs no shared blocks. */
  #waitingFor(pool: AddressPool): number | undefined {
    const waiting = [this.claims?.view.waitingFor(pool.name), this.clusterApi?.waitingFor(pool)];
    const isShared = pool.mode === "PerAddress" || waiting.some((count) => count !== undefined);
    return isShared && !pool.isDeleting
      ? waiting.reduce<number>((sum, count = 0) => sum + count, 0)
      : undefined;
  }

  /** The sooner a look is made after another node has a name, the fewer pods are taken for those of the old one. */
  #passes(signal: AbortSignal): Promise<never> {
    const times = { minMs: MIN_PASS_MS, everyMs: PASS_MS };
    return this.#repeat(
      () => this.pass(signal),
      times,
      () => this.view.nodeGone,
      signal,
    );
  }

  /** Blocks of a burst of claims are made while the first of them get addresses that were free before. */
  #supplies(signal: AbortSignal): Promise<never> {
    const times = { minMs: MIN_SUPPLY_MS, everyMs: COUNT_MS };
    return this.#repeat(
      () => this.supply(signal),
      times,
      () => this.claims?.view.claimWaits,
      signal,
    );
  }

  async #counts(signal: AbortSignal): Promise<never> {
    for (;;) {
      await this.count(signal);
      await this.#options.clock.sleep(COUNT_MS, signal);
    }
  }

  /** Works at this interval, or as soon as `next` resolves, which is asked for before the work. */
  async #repeat(
    work: () => Promise<void>,
    { minMs, everyMs }: { readonly minMs: number; readonly everyMs: number },
    next: () => Promise<void> | undefined,
    signal: AbortSignal,
  ): Promise<never> {
    const { clock } = this.#options;
    for (;;) {
      const sooner = next();
      await work();
      await clock.sleep(minMs, signal);
      await linked(signal, (ended) =>
        Promise.race([
          clock.sleep(everyMs - minMs, ended),
          ...(sooner === undefined ? [] : [orAborted(sooner, ended)]),
        ]),
      );
    }
  }
}
