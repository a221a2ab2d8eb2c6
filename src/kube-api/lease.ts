import type { Clock } from "../sync/clock.ts";
import { linked } from "../sync/deadlines.ts";
import { ApiFailure } from "./api-failure.ts";
import type { KubeApi, KubeObject } from "./client.ts";
import { microTime } from "./micro-time.ts";

/** A lease (coordination.k8s.io/v1) and who wants it. */
export interface LeaseOptions {
  readonly api: Pick<KubeApi, "get" | "create" | "update">;
  readonly namespace: string;
  readonly name: string;
  /** Unique among those who want the lease, for example the pod's name and uid. */
  readonly identity: string;
  readonly clock: Clock;
  readonly onFailure?: (failure: ApiFailure) => void;
}

interface LeaseSpec {
  readonly holderIdentity?: string | null;
  readonly leaseDurationSeconds?: number | null;
  readonly leaseTransitions?: number | null;
  readonly acquireTime?: string | null;
  readonly renewTime?: string | null;
}

/** How long others wait after the last renewal that they saw. All times are those of client-go. */
const LEASE_SECONDS = 15;
/** The holder gives up when it could not renew for so long. */
const RENEW_DEADLINE_MS = 10_000;
/** Between two attempts. */
const RETRY_MS = 2_000;

/**
 * Leader election by a lease. It gives liveness, not exclusion: a holder that was paused may act for a moment beside its
 * successor, so what a leader writes needs a resourceVersion or preconditions of its own.
 */
export class Lease {
  readonly #options: LeaseOptions;
  /** The last spec that differed from the one before, and when that was by our clock; machines' clocks are not compared. */
  #observed: { readonly spec: string; readonly atMs: number } | undefined;

  constructor(options: LeaseOptions) {
    this.#options = options;
  }

  /**
   * Waits for the lease and runs `lead` while it is held, until the signal fires; rejects with its reason then, or with
   * what `lead` rejects with. The signal of `lead` fires when the lease was not renewed in time.
   */
  async run(lead: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<never> {
    for (;;) {
      await this.#untilHeld(signal);
      const leading = new AbortController();
      const running = lead(leading.signal);
      try {
        await linked(signal, (ended) => Promise.race([this.#keep(ended), running]));
      } finally {
        leading.abort(new Error("the lease is not held any more"));
        await running.catch(() => undefined);
        await this.release(AbortSignal.timeout(RETRY_MS)).catch(() => undefined);
      }
      await running;
      await this.#options.clock.sleep(RETRY_MS, signal);
    }
  }

  /** One attempt to acquire or renew. @returns whether the lease is held now */
  async tryHold(signal: AbortSignal): Promise<boolean> {
    const { identity: holderIdentity, clock } = this.#options;
    const lease = await this.#read(signal);
    const spec = specOf(lease);
    const isRenewal = spec.holderIdentity === holderIdentity;
    if (!isRenewal && this.#isTaken(spec)) return false;
    const renewTime = microTime(clock.now());
    const leaseTransitions = lease === undefined ? 0 : (spec.leaseTransitions ?? 0) + 1;
    const acquired = isRenewal ? {} : { acquireTime: renewTime, leaseTransitions };
    try {
      await this.#write(
        lease,
        { holderIdentity, leaseDurationSeconds: LEASE_SECONDS, renewTime, ...acquired },
        signal,
      );
      return true;
    } catch (error) {
      // Another one was faster.
      if (error instanceof ApiFailure && ["conflict", "exists"].includes(error.problem)) return false;
      throw error;
    }
  }

  /** Gives the lease back where it is ours, so that the next holder need not wait. */
  async release(signal: AbortSignal): Promise<void> {
    const lease = await this.#read(signal);
    if (specOf(lease).holderIdentity !== this.#options.identity) return;
    const renewTime = microTime(this.#options.clock.now());
    await this.#write(lease, { holderIdentity: "", leaseDurationSeconds: 1, renewTime }, signal);
  }

  get #resource() {
    const { namespace } = this.#options;
    return { group: "coordination.k8s.io", version: "v1", plural: "leases", namespace };
  }

  async #read(signal: AbortSignal): Promise<KubeObject | undefined> {
    const { api, name, clock } = this.#options;
    const lease = await api.get(this.#resource, name, signal).catch((error) => {
      if (error instanceof ApiFailure && error.problem === "not-found") return undefined;
      throw error;
    });
    const spec = JSON.stringify(specOf(lease));
    if (this.#observed?.spec !== spec) this.#observed = { spec, atMs: clock.monotonic() };
    return lease;
  }

  async #write(lease: KubeObject | undefined, change: LeaseSpec, signal: AbortSignal): Promise<void> {
    const { api, name } = this.#options;
    const spec = { ...specOf(lease), ...change };
    const made = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { name }, spec };
    if (lease === undefined) await api.create(this.#resource, made, signal);
    else await api.update(this.#resource, { ...lease, spec }, signal);
  }

  #isTaken({ holderIdentity, leaseDurationSeconds }: LeaseSpec): boolean {
    const sinceMs = this.#options.clock.monotonic() - (this.#observed?.atMs ?? 0);
    return Boolean(holderIdentity) && sinceMs < (leaseDurationSeconds ?? LEASE_SECONDS) * 1000;
  }

  async #untilHeld(signal: AbortSignal): Promise<void> {
    const { clock, onFailure } = this.#options;
    for (;;) {
      try {
        if (await this.tryHold(signal)) return;
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof ApiFailure)) throw error;
        onFailure?.(error);
      }
      await clock.sleep(RETRY_MS, signal);
    }
  }

  /** Renews until that has failed for {@link RENEW_DEADLINE_MS}. */
  async #keep(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const renew = (attempt: AbortSignal) => {
      const renewed = this.#untilHeld(attempt).then(() => true);
      return Promise.race([renewed, clock.sleep(RENEW_DEADLINE_MS, attempt).then(() => false)]);
    };
    do await clock.sleep(RETRY_MS, signal);
    while (await linked(signal, renew));
  }
}

function specOf(lease: KubeObject | undefined): LeaseSpec {
  return (lease?.["spec"] ?? {}) as LeaseSpec;
}
