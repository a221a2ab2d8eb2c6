import { allocationName } from "../../address-objects/resources.ts";
import { Failure } from "../../failure/failure.ts";
import { linked, orAborted } from "../../sync/deadlines.ts";
import { WorkQueue } from "../../sync/work-queue.ts";
import type { ControllerContext } from "../controller-context.ts";
import type { FollowOptions } from "../mirror.ts";
import { ClaimRefused, type ClaimsContext } from "./claims-context.ts";
import { type ClaimEntry, ClaimsView } from "./claims-view.ts";
import { ClaimManager } from "./manage/claim-manager.ts";
import { publishClaim } from "./publish-claim.ts";
import { ClaimReclaimer } from "./reclaim-claims.ts";

/** Claims that are worked on at the same time. */
const WORKERS = 4;
/** All claims are looked at in this interval: for what no watch shows. */
const RESYNC_MS = 5 * 60_000;

/** How many claims there are, by what became of them. */
export interface ClaimStates {
  /** They have addresses, which are allocated to them. */
  readonly ready: number;
  /** They have none yet. */
  readonly pending: number;
  /** Their condition says why. */
  readonly refused: number;
}

/**
 * Gives claims of our networks their addresses, and frees those of claims that are gone. Agents allocate for a claim too when
 * the controller is away: the version of the claim's status decides between all of them.
 */
export class ClaimsController {
  readonly view: ClaimsView;
  readonly #context: ClaimsContext;
  readonly #queue: WorkQueue;
  readonly #reclaimer: ClaimReclaimer;
  /** Where the claims of VMs are made here. */
  readonly manager: ClaimManager | undefined;

  /** @param isManager whether it makes the claims of VMs, too */
  constructor(context: ControllerContext, random: () => number, isManager: boolean) {
    this.view = new ClaimsView({
      claim: (key, vms) => {
        this.#changed(key);
        for (const vm of vms) this.manager?.changed(vm);
      },
      networks: () => {
        for (const key of this.view.claims.entries.keys()) this.#changed(key);
        this.manager?.allChanged();
      },
    });
    this.#context = { ...context, claims: this.view, random };
    this.manager = isManager ? new ClaimManager(this.#context) : undefined;
    this.#reclaimer = new ClaimReclaimer(this.#context);
    this.#queue = new WorkQueue({
      work: (key, signal) => publishClaim(this.#context, key, signal),
      onFailure: (key, error) => {
        // The condition says it.
        if (isSaid(error)) return;
        context.onFailure({ claim: key }, "a claim cannot be worked on", error);
      },
      resync: { everyMs: RESYNC_MS, keys: () => this.view.claims.entries.keys() },
      workers: WORKERS,
      clock: context.clock,
    });
  }

  get states(): ClaimStates {
    const states = { ready: 0, pending: 0, refused: 0 };
    for (const entry of this.view.claims.entries.values()) {
      if (typeof entry === "string" || this.view.networkOf(entry) === undefined) continue;
      const isRefused = entry.reason !== undefined && entry.reason !== "SuccessfulAllocation";
      states[isRefused ? "refused" : entry.ips.length > 0 ? "ready" : "pending"] += 1;
    }
    return states;
  }

  /** Follows claims and networks until the signal fires; rejects with its reason then. */
  follow(options: FollowOptions, signal: AbortSignal): Promise<never> {
    return Promise.race([
      this.view.claims.follow(options, signal),
      this.view.attachments.follow(options, signal),
      ...(this.manager === undefined ? [] : [this.manager.follow(options, signal)]),
    ]);
  }

  /** Works on claims until the signal fires; rejects with its reason then. The cluster's view is synced before. */
  async run(signal: AbortSignal): Promise<never> {
    const { claims, attachments } = this.view;
    await orAborted(Promise.all([claims.whenSynced(), attachments.whenSynced()]), signal);
    for (const key of claims.entries.keys()) this.#changed(key);
    return linked(signal, async (ended) => {
      const published = this.#queue.run(ended).then(() => Promise.reject(ended.reason));
      return Promise.race([published, ...(this.manager === undefined ? [] : [this.manager.run(ended)])]);
    });
  }

  /** One look at addresses whose claims are gone. */
  async pass(signal: AbortSignal): Promise<void> {
    if (!this.view.isSynced) return;
    await this.manager?.pass(signal);
    await this.#reclaimer.pass(signal);
  }

  /** Nothing is asked for a claim that has what it should have: there may be 10,000 of them at the start. */
  #changed(key: string): void {
    const entry = this.view.claims.entries.get(key);
    if (entry === undefined || typeof entry === "string" || this.#isSettled(entry)) return;
    this.#queue.forget(key);
    this.#queue.add(key);
  }

  #isSettled(entry: ClaimEntry): boolean {
    const { ips, uid, isDeleting, reason } = entry;
    const network = this.view.networkOf(entry);
    if (network === undefined) return true;
    if (ips.length === 0) return isDeleting;
    if (!("pools" in network)) return true;
    if (reason !== undefined && reason !== "SuccessfulAllocation") return false;
    const { allocations, pools } = this.#context.view;
    const spaces = network.pools.flatMap((one) => {
      const pool = pools.entries.get(one)?.pool;
      return pool === undefined || typeof pool === "string" ? [] : [pool.space];
    });
    return ips.every(({ family, value }) =>
      spaces.some(
        (space) => allocations.entries.get(allocationName(space, { family, value }))?.claim?.uid === uid,
      ),
    );
  }
}

function isSaid(error: unknown): boolean {
  return (
    error instanceof ClaimRefused ||
    (error instanceof Failure && ["pool-exhausted", "address-refused"].includes(error.code))
  );
}
