// Addresses of claims that are gone: two looks, as far apart as the pool's cooldown, then the address is free.
import { parseAddressAllocation } from "../../address-objects/address-allocation.ts";
import { ADDRESS_ALLOCATIONS } from "../../address-objects/resources.ts";
import type { KubeObject } from "../../kube-api/client.ts";
import { releaseShared } from "../../pool-addresses/release-shared.ts";
import { readNow } from "../look.ts";
import { LOOKS_MS, type Look, Sightings } from "../sightings.ts";
import { ipAddressOf } from "./objects.ts";
import type { ProviderContext } from "./provider-context.ts";

/** Frees addresses whose claim is gone, by its uid, and whose IPAddress is gone too. */
export class ClaimedReclaimer {
  readonly #sightings = new Sightings();

  /** One look at an allocation. @throws ApiFailure, or Failure `invalid-address-object`: then it is in use */
  async look(context: ProviderContext, name: string, signal: AbortSignal): Promise<void> {
    const { api, clock, counts, logger, view } = context;
    try {
      const object = await readNow(api, ADDRESS_ALLOCATIONS, name, signal);
      const look = object && (await lookAtClaim(context, object, signal));
      const allocation = object && parseAddressAllocation(object);
      const pool = allocation && view.pools.entries.get(allocation.pool)?.pool;
      const seconds = pool === undefined || typeof pool === "string" ? 0 : pool.cooldownSeconds;
      const gapMs = Math.max(LOOKS_MS, seconds * 1000);
      if (!this.#sightings.note(name, look, gapMs, clock.monotonic()) || allocation === undefined) return;
      this.#sightings.forget(name);
      if (!(await releaseShared(api, allocation, signal))) return;
      counts.allocationsFreed += 1;
      const claim = `${allocation.owner?.namespace}/${allocation.owner?.name}`;
      logger.info({ allocation: name, claim }, "an address was freed: its claim is gone");
    } catch (error) {
      this.#sightings.forget(name);
      throw error;
    }
  }

  /** Forgets what is no candidate any more. */
  keep(names: ReadonlySet<string>): void {
    this.#sightings.keep(names);
  }
}

/** The allocation was read before: what happens to it in between changes its version. */
async function lookAtClaim(
  { api, resources }: ProviderContext,
  object: KubeObject,
  signal: AbortSignal,
): Promise<Look | undefined> {
  const { owner, address, uid, resourceVersion, isDeleting } = parseAddressAllocation(object);
  if (owner?.kind !== "IPAddressClaim" || isDeleting) return undefined;
  const { namespace, name } = owner;
  const claim = await readNow(api, { ...resources.claims, namespace }, name, signal);
  if (claim?.metadata.uid === owner.uid) return undefined;
  const published = await readNow(api, { ...resources.addresses, namespace }, name, signal);
  if (published !== undefined && ipAddressOf(published)?.address?.value === address.value) return undefined;
  const finding =
    claim === undefined ? "it was deleted" : `another claim has its name: ${claim.metadata.uid}`;
  return { finding, version: `${uid}/${resourceVersion}`, holders: [] };
}
