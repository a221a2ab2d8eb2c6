import type { Clock } from "../sync/clock.ts";
import { whenAborted } from "../sync/deadlines.ts";
import { ApiFailure } from "./api-failure.ts";
import { type KubeApi, type KubeObject, microTime, type Resource } from "./client.ts";

/** A lease (coordination.k8s.io/v1) and who wants it; times default to those of client-go. */
export interface LeaseOptions {
  readonly api: Pick<KubeApi, "get" | "create" | "update">;
  readonly namespace: string;
  readonly name: string;
  /** Unique among those who want the lease, for example the pod's name and uid. */
  readonly identity: string;
  /** How long others wait after the last renewal that they saw; default 15. */
  readonly leaseSeconds?: number;
  /** The holder gives up when it could not renew for so long; less than `leaseSeconds`; default 10,000. */
  readonly renewDeadlineMs?: number;
  /** Between two attempts; default 2,000. */
  readonly retryMs?: number;
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

const TIMES = { leaseSeconds: 15, renewDeadlineMs: 10_000, retryMs: 2_000 };

/**
 * Leader election by a lease. It gives liveness, not exclusion: a holder that was paused may act for a moment beside its
 * successor, so what a leader writes needs a resourceVersion or preconditions of its own.
 */
export class Lease {
  readonly #options: LeaseOptions & typeof TIMES;
  readonly #resource: Resource;
  /** The last spec that differed from the one before, and when that was by our clock; machines' clocks are not compared. */
  #observed: { readonly spec: string; readonly atMs: number } | undefined;

  constructor(options: LeaseOptions) {
    this.#options = { ...TIMES, ...options };
    const { namespace } = options;
    this.#resource = { group: "coordination.k8s.io", version: "v1", plural: "leases", namespace };
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
      const ended = new AbortController();
      const onAbort = () => ended.abort(signal.reason);
      whenAborted(signal, onAbort);
      const keeping = this.#keep(ended.signal);
      try {
        await Promise.race([keeping, running]);
      } finally {
        leading.abort(new Error("the lease is not held any more"));
        await running.catch(() => undefined);
        signal.removeEventListener("abort", onAbort);
        ended.abort();
        await keeping.catch(() => undefined);
        await this.release(AbortSignal.timeout(this.#options.retryMs)).catch(() => undefined);
      }
      await running;
      await this.#options.clock.sleep(this.#options.retryMs, signal);
    }
  }

  /** One attempt to acquire or renew. @returns whether the lease is held now */
  async tryHold(signal: AbortSignal): Promise<boolean> {
    const { name, identity: holderIdentity, leaseSeconds: leaseDurationSeconds, clock } = this.#options;
    const renewTime = microTime(clock.now());
    const mine = { holderIdentity, leaseDurationSeconds, renewTime };
    try {
      const lease = await this.#read(signal);
      const spec = specOf(lease);
      if (spec.holderIdentity === holderIdentity) await this.#write(lease, mine, signal);
      else if (this.#isTaken(spec)) return false;
      else {
        const leaseTransitions = (spec.leaseTransitions ?? 0) + 1;
        await this.#write(lease, { ...mine, acquireTime: renewTime, leaseTransitions }, signal);
      }
      return true;
    } catch (error) {
      if (!(error instanceof ApiFailure) || !["not-found", "conflict"].includes(error.problem)) throw error;
      if (error.problem === "conflict") return false;
    }
    const spec = { ...mine, acquireTime: renewTime, leaseTransitions: 0 };
    const lease = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { name }, spec };
    return this.#options.api.create(this.#resource, lease, signal).then(
      () => true,
      (error) => {
        if (error instanceof ApiFailure && error.problem === "exists") return false;
        throw error;
      },
    );
  }

  /** Gives the lease back where it is ours, so that the next holder need not wait. */
  async release(signal: AbortSignal): Promise<void> {
    const lease = await this.#read(signal);
    if (specOf(lease).holderIdentity !== this.#options.identity) return;
    const renewTime = microTime(this.#options.clock.now());
    await this.#write(lease, { holderIdentity: "", leaseDurationSeconds: 1, renewTime }, signal);
  }

  async #read(signal: AbortSignal): Promise<KubeObject> {
    const { api, name, clock } = this.#options;
    const lease = await api.get(this.#resource, name, signal);
    const spec = JSON.stringify(lease["spec"]);
    if (this.#observed?.spec !== spec) this.#observed = { spec, atMs: clock.monotonic() };
    return lease;
  }

  async #write(lease: KubeObject, change: LeaseSpec, signal: AbortSignal): Promise<void> {
    await this.#options.api.update(
      this.#resource,
      { ...lease, spec: { ...specOf(lease), ...change } },
      signal,
    );
  }

  #isTaken({ holderIdentity, leaseDurationSeconds }: LeaseSpec): boolean {
    const { leaseSeconds, clock } = this.#options;
    const sinceMs = clock.monotonic() - (this.#observed?.atMs ?? 0);
    return Boolean(holderIdentity) && sinceMs < (leaseDurationSeconds ?? leaseSeconds) * 1000;
  }

  async #untilHeld(signal: AbortSignal): Promise<void> {
    const { clock, retryMs, onFailure } = this.#options;
    for (;;) {
      try {
        if (await this.tryHold(signal)) return;
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof ApiFailure)) throw error;
        onFailure?.(error);
      }
      await clock.sleep(retryMs, signal);
    }
  }

  /** Renews until that has failed for `renewDeadlineMs`. */
  async #keep(signal: AbortSignal): Promise<void> {
    const { clock, retryMs, renewDeadlineMs } = this.#options;
    for (let isHeld = true; isHeld; ) {
      await clock.sleep(retryMs, signal);
      const attempt = new AbortController();
      const stop = () => attempt.abort(signal.reason);
      signal.addEventListener("abort", stop);
      const tooLate = clock.sleep(renewDeadlineMs, attempt.signal).then(() => false);
      const renewed = this.#untilHeld(attempt.signal).then(() => true);
      try {
        isHeld = await Promise.race([renewed, tooLate]);
      } finally {
        signal.removeEventListener("abort", stop);
        attempt.abort();
        await Promise.allSettled([renewed, tooLate]);
      }
    }
  }
}

function specOf(lease: KubeObject): LeaseSpec {
  return (lease["spec"] ?? {}) as LeaseSpec;
}
