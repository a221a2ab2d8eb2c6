import type { AddressPool } from "../address-objects/address-pool.ts";
import { allocationName } from "../address-objects/resources.ts";
import type { Address } from "../addresses/address.ts";
import { rangeOf } from "../addresses/subnet.ts";
import { rotated } from "../pool-addresses/allocate-shared.ts";
import type { ClusterView } from "./cluster-view.ts";

/**
 * Addresses of one shared block of a pool that no allocation has as the watches show it; none where all blocks seem full. The
 * block is the first one from a random one on, and so are its addresses, so that two callers seldom meet.
 * @param random from 0 up to 1
 */
export function freeAddresses(
  { space, family, usable }: AddressPool,
  { blocks, allocations, allocationsIn }: ClusterView,
  random: () => number,
): readonly Address[] {
  for (const [name, block] of rotated([...blocks.entries], random)) {
    if (block?.owner.kind !== "Shared" || block.state !== "Bound") continue;
    if (block.space !== space || block.prefix.family !== family) continue;
    const values = usable.clip(rangeOf(block.prefix));
    if (BigInt(allocationsIn.get(name) ?? 0) >= values.size) continue;
    const free = [...values.values()]
      .map((value) => ({ family, value }))
      .filter((address) => !allocations.entries.has(allocationName(space, address)));
    if (free.length > 0) return rotated(free, random);
  }
  return [];
}
