import { type Address, formatAddress, formatPrefix } from "../addresses/address.ts";
import { Failure } from "../failure/failure.ts";
import { present } from "../names/present.ts";
import { type AddressSource, blocksOfSource, countsOfSource } from "./address-source.ts";
import type { AgentContext } from "./agent-context.ts";
import type { BlockSupply } from "./block-supply.ts";
import { claimedAddresses } from "./claims/claimed-addresses.ts";
import { formerAddresses } from "./claims/former-addresses.ts";
import { type Held, tryAgain } from "./held-address.ts";
import { holdShared } from "./hold-shared.ts";
import type { Allocation } from "./journal-entries.ts";
import { sourcesOf } from "./network-config.ts";
import type { OwnBlocks } from "./own-blocks.ts";
import {
  type AllocationRequest,
  allocationEntry,
  allocationFields,
  allocationLock,
  podInterface,
} from "./request.ts";
import { holdRequested, requestedAddresses } from "./requested-addresses.ts";
import { addResult } from "./result.ts";

/** What ADD works with beside the context. */
export interface AddParts {
  readonly own: Pick<OwnBlocks, "confirm">;
  readonly supply: BlockSupply;
}

/**
 * ADD: an address of each source, from this node's blocks without a request to the API server while they have free ones;
 * else a block is taken first. One of a shared block is taken at the API server. Repeated it gives the same addresses.
 * @throws Failure `superseded`, `kube-api-unavailable`, `pool-exhausted`, `pool-missing`, `address-refused`,
 *   `record-unwritable`, and those of {@link claimedAddresses}
 */
export async function add(
  request: AllocationRequest,
  { own, supply }: AddParts,
  context: AgentContext,
  signal: AbortSignal,
): Promise<object> {
  const { state, locks, stale, newestAdds, logger } = context;
  const { key, config, raw, pod, interfaceName } = request;
  if (pod !== undefined) {
    const ofPod = podInterface(pod, config.name, interfaceName);
    newestAdds.set(ofPod, Math.max(raw.startedAtMs, newestAdds.get(ofPod) ?? 0));
  }
  return locks.run(allocationLock(key, "ADD", signal), async () => {
    if (stale.isStale(key, raw.startedAtMs)) throw superseded(request);

    // 1. An ADD that is repeated: the sandbox has its addresses already.
    const known = state.allocations.get(key);
    if (known !== undefined) return addResult(known, config.cniVersion);

    // 2. An interface with a claim gets the claim's addresses, which are of no block of this node. While the API server is
    // away, it gets what it had in the pod's former sandbox.
    const claimed = await claimedAddresses(request, context, signal).catch((error: unknown) => {
      const former = formerAddresses(request, error, context);
      if (former !== undefined) return former;
      throw tryAgain("the interface's claim cannot be read or allocated for", error);
    });
    if (claimed !== undefined) return answerWith(claimed, request, context);

    // 3. After a boot, the API server confirms once that the blocks are still ours.
    await own.confirm(signal).catch((error: unknown) => {
      throw tryAgain("this node's blocks have yet to be confirmed after its boot", error);
    });

    // 4. One address of each source is held in memory, so that no other ADD gets it.
    const held: Held[] = [];
    let allocation: Allocation;
    try {
      const sources = sourcesOf(config, state);
      const requested = requestedAddresses(request, sources);
      if (sources.some(({ shared }) => shared !== undefined))
        await state.putUnused(key, state.unusedShared.get(key)?.wereUsed ?? false);
      for (const source of sources) {
        const address = requested.get(source);
        held.push(
          source.shared !== undefined
            ? await holdShared(source, source.shared, address, request, context, signal)
            : address === undefined
              ? await holdAny(source, key, supply, context, signal)
              : await holdThis(source, address, key, supply, context, signal),
        );
      }

      // 5. All of them are on disk before the answer.
      const addresses = held.map(addressOf);
      const used = held.map(({ source }) => source);
      allocation = allocationEntry(request, state, addresses, used);
      await state.putAllocation(allocation);
    } catch (error) {
      for (const { unhold } of held) unhold?.();
      throw error;
    }

    // 6. Where few are left, the next block is taken in the background.
    for (const { source, shared } of held) if (shared === undefined) supply.noteTaken(source);
    const addresses = allocation.addresses.map(({ address }) => address);
    logger.info({ ...allocationFields(allocation), addresses }, "addresses allocated");
    return addResult(allocation, config.cniVersion);
  });
}

/** Addresses of a claim are on disk before the answer too. */
async function answerWith(
  allocation: Allocation,
  { config }: AllocationRequest,
  { state, logger }: AgentContext,
): Promise<object> {
  await state.putAllocation(allocation);
  const addresses = allocation.addresses.map(({ address }) => address);
  logger.info(
    { ...allocationFields(allocation), claim: allocation.claim, addresses },
    "addresses of a claim given",
  );
  return addResult(allocation, config.cniVersion);
}

/** Holds a free address; takes a block where there is none. */
async function holdAny(
  source: AddressSource,
  key: string,
  supply: BlockSupply,
  context: AgentContext,
  signal: AbortSignal,
): Promise<Held> {
  const { state, clock } = context;
  for (;;) {
    for (const block of blocksOfSource(source, state)) {
      if (!block.isUsable) continue;
      const value = block.pick(source.usable, clock.monotonic(), source.cooldownSeconds * 1000);
      if (value === undefined) continue;
      block.hold(value, key);
      return { source, block, value, unhold: () => block.unhold(value, clock.monotonic()) };
    }
    await supply.take(source, signal).catch((error: unknown) => {
      const { used, resting } = countsOfSource(source, state, clock.monotonic());
      const name = source.pool === undefined ? "the network's ranges" : `pool ${source.pool}`;
      throw tryAgain(
        `this node has no free address of ${name} (${used} in use, ${resting} resting), and cannot take a block`,
        error,
      );
    });
  }
}

/** Holds the address that the caller asks for. */
async function holdThis(
  source: AddressSource,
  address: Address,
  key: string,
  supply: BlockSupply,
  context: AgentContext,
  signal: AbortSignal,
): Promise<Held> {
  const block = await holdRequested(source, address, key, supply, context, signal).catch((error: unknown) => {
    throw tryAgain(`the block of the requested address ${formatAddress(address)} cannot be taken`, error);
  });
  const { value } = address;
  return { source, block, value, unhold: () => block.unhold(value, context.clock.monotonic()) };
}

function addressOf({ source, block, value, shared }: Held): Allocation["addresses"][number] {
  const { family } = source;
  const subnet = source.subnets.find(({ usable }) => usable.has(value));
  const length = subnet?.prefix.length ?? block.prefix.length;
  const gateway = subnet?.gateway && formatAddress(subnet.gateway);
  return present({
    block: block.name,
    address: formatPrefix({ family, value, length }),
    gateway,
    pool: source.pool,
    shared,
  });
}

function superseded({ interfaceName }: AllocationRequest): Failure {
  return new Failure({
    code: "superseded",
    what: `interface ${interfaceName} was detached after this ADD had started`,
    fix: "nothing; the runtime has given this sandbox up",
  });
}
