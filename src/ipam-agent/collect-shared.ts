// Allocations in shared blocks that an interface of this node does not use, or not any more.
import {
  type AddressAllocation,
  type AllocationOwner,
  parseAddressAllocation,
} from "../address-objects/address-allocation.ts";
import { ADDRESS_ALLOCATIONS, nodeHash, selectorOf } from "../address-objects/resources.ts";
import { describeThrown } from "../failure/failure.ts";
import type { KubeObject } from "../kube-api/client.ts";
import { endUse } from "../pool-addresses/release-shared.ts";
import { within } from "../sync/deadlines.ts";
import type { AgentContext } from "./agent-context.ts";
import { type Allocation, entryKey } from "./journal-entries.ts";
import type { UnusedShared } from "./node-state.ts";
import { listPodsOfNode } from "./pods-of-node.ts";
import { allocationLock } from "./request.ts";

/** Between the two looks, in milliseconds; a create that was slow has arrived by then. */
const SECOND_LOOK_MS = 60_000;
/** How long a DEL waits for the API server, in milliseconds. */
const KEEP_MS = 2_000;

/**
 * Releases the shared addresses that interfaces of this node do not use: those of an ADD that failed, at once; those that
 * were used, after the pool's cooldown; and those of which no journal knows, when their pod is gone at two looks a minute
 * apart. The API server is asked only while there are some.
 */
export class SharedCollector {
  readonly #context: AgentContext;
  /** By UID of the allocation that no journal knows: when its pod was first seen to be gone; undefined while it is there. */
  readonly #strangers = new Map<string, number | undefined>();
  /** Whether a look since the start has found none that no journal knows. */
  #hasLooked = false;

  constructor(context: AgentContext) {
    this.#context = context;
  }

  /** One look. @throws ApiFailure, Failure `record-unwritable` */
  async look(signal: AbortSignal): Promise<void> {
    const { api, node, state, clock } = this.#context;
    const mayHaveSome = [...state.pools.values()].some(({ mode }) => mode === "PerAddress");
    if (state.unusedShared.size === 0 && (this.#hasLooked || !mayHaveSome)) return;
    const unused = [...state.unusedShared];
    const atMs = clock.monotonic();
    const labelSelector = selectorOf({ node: nodeHash(node) });
    const { objects } = await api.list(ADDRESS_ALLOCATIONS, { labelSelector }, signal);
    const byInterface = Map.groupBy(
      objects.flatMap((object) => this.#ofThisNode(object)),
      ({ key }) => key,
    );
    for (const [key, entry] of unused)
      await this.#release(key, entry, byInterface.get(key) ?? [], atMs, signal);
    const strangers = [...byInterface].filter(
      ([key]) => !state.allocations.has(key) && !state.unusedShared.has(key),
    );
    this.#hasLooked = strangers.length === 0;
    await this.#lookAtStrangers(strangers, signal);
  }

  #ofThisNode(object: KubeObject): readonly Listed[] {
    try {
      const allocation = parseAddressAllocation(object);
      const { node, owner } = allocation;
      if (owner?.kind !== "Pod" || node !== this.#context.node) return [];
      return [{ key: keyOf(owner), object, allocation }];
    } catch (error) {
      this.#context.logger.error({ reason: describeThrown(error) }, "an address allocation cannot be read");
      return [];
    }
  }

  /** Under the lock of ADD: an ADD that has succeeded meanwhile has removed the entry. */
  #release(
    key: string,
    entry: UnusedShared,
    listed: readonly Listed[],
    atMs: number,
    signal: AbortSignal,
  ): Promise<void> {
    const { state, locks } = this.#context;
    return locks.run(allocationLock(key, "the release of shared addresses", signal), async () => {
      if (state.unusedShared.get(key) !== entry || state.allocations.has(key)) return;
      for (const { object, allocation } of listed) {
        const restsMs = entry.wereUsed && allocation.key === undefined ? this.#cooldownMs(allocation) : 0;
        if (atMs - entry.sinceMs >= restsMs) await giveUp(object, this.#context, signal);
      }
      if (listed.length === 0 && atMs - entry.sinceMs >= SECOND_LOOK_MS) await state.forgetUnused(key);
    });
  }

  #cooldownMs({ pool }: AddressAllocation): number {
    return (this.#context.state.pools.get(pool)?.cooldownSeconds ?? SECOND_LOOK_MS / 1000) * 1000;
  }

  /** Of a journal that was lost: it is not known what uses them as long as their pod is there. */
  async #lookAtStrangers(
    strangers: readonly (readonly [string, readonly Listed[]])[],
    signal: AbortSignal,
  ): Promise<void> {
    const { state, clock } = this.#context;
    const uids = new Set(strangers.flatMap(([, all]) => all.map(({ allocation }) => allocation.uid)));
    for (const uid of this.#strangers.keys()) if (!uids.has(uid)) this.#strangers.delete(uid);
    if (strangers.length === 0) return;
    const pods = new Set((await listPodsOfNode(this.#context, signal)).map(({ uid }) => uid));
    const now = clock.monotonic();
    for (const [key, all] of strangers) {
      for (const { allocation } of all) {
        const { uid, owner } = allocation;
        const isThere = owner === undefined || pods.has(owner.uid);
        const sinceMs = isThere ? undefined : (this.#strangers.get(uid) ?? now);
        this.#strangers.set(uid, sinceMs);
        if (sinceMs === undefined || now - sinceMs < SECOND_LOOK_MS || state.allocations.has(key)) continue;
        await state.putUnused(key, true);
      }
    }
  }
}

interface Listed {
  readonly key: string;
  readonly object: KubeObject;
  readonly allocation: AddressAllocation;
}

/**
 * Lets the sticky addresses of an interface that has released them wait for their keys at once, because the next one with
 * the key may be about to come, on another node. What fails is done by the next look.
 */
export async function keepSticky(
  { addresses, ...target }: Allocation,
  context: AgentContext,
  signal: AbortSignal,
): Promise<void> {
  const { api, logger } = context;
  for (const { shared } of addresses) {
    if (shared?.key === undefined) continue;
    try {
      const soon = within(signal, KEEP_MS);
      const object = await api.get(ADDRESS_ALLOCATIONS, shared.name, soon);
      const { owner } = parseAddressAllocation(object);
      if (owner !== undefined && keyOf(owner) === entryKey.allocation(target))
        await giveUp(object, context, soon);
    } catch (error) {
      logger.debug(
        { allocation: shared.name, reason: describeThrown(error) },
        "a sticky address is released later",
      );
    }
  }
}

/** The interface that an allocation names as its owner. */
function keyOf({
  network,
  container: containerId = "",
  interface: interfaceName = "",
}: AllocationOwner): string {
  return entryKey.allocation({ network, containerId, interfaceName });
}

/** Deletes exactly this allocation, or takes the owner from one that is kept for a key. */
async function giveUp(object: KubeObject, { api, logger }: AgentContext, signal: AbortSignal): Promise<void> {
  const { name, owner } = parseAddressAllocation(object);
  if (!(await endUse(api, object, signal))) return;
  logger.info(
    { allocation: name, pod: `${owner?.namespace}/${owner?.name}` },
    "a shared address is free again",
  );
}
