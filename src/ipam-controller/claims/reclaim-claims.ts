// Addresses of claims that are gone: two looks that find neither the claim nor a pod that uses it, then the address is free.
import { parseAddressAllocation } from "../../address-objects/address-allocation.ts";
import { ADDRESS_ALLOCATIONS } from "../../address-objects/resources.ts";
import { type Address, parseAddress } from "../../addresses/address.ts";
import { parseIpamClaim } from "../../claims/ipam-claim.ts";
import { IPAM_CLAIMS, inNamespace } from "../../claims/resources.ts";
import type { KubeObject } from "../../kube-api/client.ts";
import { endUse, releaseShared } from "../../pool-addresses/release-shared.ts";
import type { ClaimAllocation } from "../cluster-view.ts";
import { readNow } from "../look.ts";
import { LOOKS_MS, type Look, Sightings } from "../sightings.ts";
import { type Holder, listHolders, mayHold } from "./claim-holders.ts";
import type { ClaimsContext } from "./claims-context.ts";
import { sameAddress } from "./claims-view.ts";

/** Looks of one pass; the rest is for the next one. */
const MAX_LOOKS = 2_000;
const UNPUBLISHED = "its claim has published other addresses";

/** An allocation whose claim does not have its address any more, as the watches show it. */
interface Candidate {
  readonly name: string;
  readonly claim: ClaimAllocation;
  readonly address: Address;
  readonly gapMs: number;
}

/**
 * Frees the addresses of claims that are gone, and those that were allocated for a claim and never published. Neither the
 * claim, nor its pods, nor the network have to be there for that.
 */
export class ClaimReclaimer {
  readonly #context: ClaimsContext;
  readonly #sightings = new Sightings();

  constructor(context: ClaimsContext) {
    this.#context = context;
  }

  async pass(signal: AbortSignal): Promise<void> {
    const { clock, onFailure } = this.#context;
    const candidates = [...this.#candidates()];
    this.#sightings.keep(new Set(candidates.map(({ name }) => name)));
    const nowMs = clock.monotonic();
    // A look between the first and the second one would show nothing.
    const due = candidates.filter(({ name, gapMs }) => !this.#sightings.isResting(name, gapMs, nowMs));
    const podsOf = new Map<string, readonly Holder[]>();
    for (const candidate of due.slice(0, MAX_LOOKS)) {
      const { name, claim } = candidate;
      try {
        await this.#visit(candidate, podsOf, signal);
      } catch (error) {
        signal.throwIfAborted();
        this.#sightings.forget(name);
        const fields = { allocation: name, claim: `${claim.namespace}/${claim.name}` };
        onFailure(fields, "an address of a claim that may be gone cannot be checked, it stays", error);
      }
    }
  }

  *#candidates(): Generator<Candidate, void> {
    const { view, claims } = this.#context;
    for (const [name, { claim, pool: poolName }] of view.allocations.entries) {
      const address = claim && parseAddress(claim.address);
      if (claim === undefined || address === undefined) continue;
      const known = claims.claims.entries.get(`${claim.namespace}/${claim.name}`);
      // A claim that cannot be read has whatever it has.
      if (typeof known === "string") continue;
      const isOwn = known?.uid === claim.uid;
      if (isOwn && (known.ips.length === 0 || known.ips.some((one) => sameAddress(one, address)))) continue;
      const pool = view.pools.entries.get(poolName)?.pool;
      const seconds = pool === undefined || typeof pool === "string" ? 0 : pool.cooldownSeconds;
      yield { name, claim, address, gapMs: Math.max(LOOKS_MS, seconds * 1000) };
    }
  }

  /** What happens between the looks changes the allocation's version, or is a pod that the second look finds. */
  async #visit(
    { name, claim, address, gapMs }: Candidate,
    podsOf: Map<string, readonly Holder[]>,
    signal: AbortSignal,
  ): Promise<void> {
    const { api, clock, counts, logger } = this.#context;
    const finding = await this.#findingOf(claim, address, signal);
    let look: Look | undefined;
    if (finding !== undefined) {
      const pods = podsOf.get(claim.namespace) ?? (await listHolders(api, claim.namespace, signal));
      podsOf.set(claim.namespace, pods);
      const holders = pods
        .filter((pod) => mayHold(pod, claim.name, address))
        .map(({ pod }) => pod.metadata.uid ?? "");
      look = { finding, version: claim.version, holders };
    }
    if (!this.#sightings.note(name, look, gapMs, clock.monotonic())) return;
    this.#sightings.forget(name);
    const object = await readNow(api, ADDRESS_ALLOCATIONS, name, signal);
    if (object === undefined || versionOf(object) !== claim.version) return;
    // One that was never published is not kept for the claim's key.
    const isFreed =
      finding === UNPUBLISHED
        ? await releaseShared(api, parseAddressAllocation(object), signal)
        : await endUse(api, object, signal);
    if (!isFreed) return;
    counts.allocationsFreed += 1;
    logger.info(
      { allocation: name, claim: `${claim.namespace}/${claim.name}`, reason: finding },
      "an address of a claim was freed",
    );
  }

  /** Reads the claim at the API server: a watch may be behind. */
  async #findingOf(
    { namespace, name, uid }: ClaimAllocation,
    address: Address,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const object = await readNow(this.#context.api, inNamespace(IPAM_CLAIMS, namespace), name, signal);
    if (object === undefined || object.metadata.uid !== uid) return "its claim is gone";
    const { ips } = parseIpamClaim(object);
    const isUnpublished = ips.length > 0 && !ips.some((one) => sameAddress(one, address));
    return isUnpublished ? UNPUBLISHED : undefined;
  }
}

function versionOf({ metadata: { uid, resourceVersion } }: KubeObject): string {
  return `${uid}/${resourceVersion}`;
}
