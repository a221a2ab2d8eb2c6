// Addresses of shared blocks whose pod and node are gone: two looks, then the address is free, or waits for its key.
import { parseAddressAllocation } from "../address-objects/address-allocation.ts";
import { ADDRESS_ALLOCATIONS } from "../address-objects/resources.ts";
import type { KubeApi, KubeObject } from "../kube-api/client.ts";
import { endUse } from "../pool-addresses/release-shared.ts";
import type { AllocationEntry } from "./cluster-view.ts";
import type { ControllerContext } from "./controller-context.ts";
import { NODES, nodeEntryOf, PODS, readNow, whyGone } from "./look.ts";
import { LOOKS_MS, type Look, Sightings } from "./sightings.ts";

/** Looks of one pass; the rest is for the next one. */
const MAX_LOOKS = 1_000;

/**
 * Frees addresses whose pod and node are gone. While the node is there its agent frees them: only it sees whether the
 * pod's network namespace is gone, too. A pod that was deleted by force from a node that does not answer may still run.
 */
export class AllocationReclaimer {
  readonly #context: ControllerContext;
  readonly #sightings = new Sightings();

  constructor(context: ControllerContext) {
    this.#context = context;
  }

  async pass(signal: AbortSignal): Promise<void> {
    const { view } = this.#context;
    const candidates: string[] = [];
    for (const [name, allocation] of view.allocations.entries)
      if (this.#mayBeLeft(allocation)) candidates.push(name);
    this.#sightings.keep(new Set(candidates));
    // Those that were seen before first, so that each is seen twice however many there are.
    const inOrder = candidates.sort((one, other) => this.#rank(one) - this.#rank(other));
    for (const name of inOrder.slice(0, MAX_LOOKS)) {
      try {
        await this.#visit(name, signal);
      } catch (error) {
        signal.throwIfAborted();
        this.#sightings.forget(name);
        this.#context.onFailure(
          { allocation: name },
          "an address that may be left over cannot be checked, it stays",
          error,
        );
      }
    }
  }

  #rank(name: string): number {
    return this.#sightings.has(name) ? 0 : 1;
  }

  #mayBeLeft({ podUid, block, node }: AllocationEntry): boolean {
    const { pods, nodes, blocks } = this.#context.view;
    if (podUid === undefined || pods.entries.has(podUid)) return false;
    if (typeof block !== "string" || blocks.entries.get(block)?.owner.kind !== "Shared") return false;
    return node === undefined || whyGone(nodes.entries.get(node), undefined) !== undefined;
  }

  /** The allocation is read before its pod and node: what happens in between changes its version. */
  async #visit(name: string, signal: AbortSignal): Promise<void> {
    const { api, clock, counts, logger } = this.#context;
    const object = await readNow(api, ADDRESS_ALLOCATIONS, name, signal);
    const look = object && (await lookAtHolders(api, object, signal));
    if (!this.#sightings.note(name, look, this.#gapMs(object), clock.monotonic())) return;
    this.#sightings.forget(name);
    if (object === undefined) return;
    const { owner } = parseAddressAllocation(object);
    if (!(await endUse(api, object, signal))) return;
    counts.allocationsFreed += 1;
    const pod = `${owner?.namespace}/${owner?.name}`;
    logger.info({ allocation: name, pod }, "an address was freed: its pod and node are gone");
  }

  /** The address rests as long as its pool says. */
  #gapMs(object: KubeObject | undefined): number {
    const pool = object && this.#context.view.pools.entries.get(parseAddressAllocation(object).pool)?.pool;
    const seconds = pool === undefined || typeof pool === "string" ? 0 : pool.cooldownSeconds;
    return Math.max(LOOKS_MS, seconds * 1000);
  }
}

/** @throws ApiFailure, or Failure `invalid-address-object`: then the address is in use */
async function lookAtHolders(
  api: Pick<KubeApi, "get">,
  object: KubeObject,
  signal: AbortSignal,
): Promise<Look | undefined> {
  const { owner, node, uid, resourceVersion, isDeleting } = parseAddressAllocation(object);
  if (owner?.kind !== "Pod" || isDeleting) return undefined;
  const pod = await readNow(api, { ...PODS, namespace: owner.namespace }, owner.name, signal);
  if (pod?.metadata.uid === owner.uid) return undefined;
  const found = node === undefined ? undefined : await readNow(api, NODES, node, signal);
  const why = node === undefined ? "it names no node" : whyGone(found && nodeEntryOf(found), undefined);
  if (why === undefined) return undefined;
  return { finding: why, version: `${uid}/${resourceVersion}`, holders: [] };
}
