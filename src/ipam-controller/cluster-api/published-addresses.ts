// What the watches show of addresses: hints, on which no safety rests.
import type { AddressPool } from "../../address-objects/address-pool.ts";
import { type Address, formatAddress } from "../../addresses/address.ts";
import { rangeOf } from "../../addresses/subnet.ts";
import type { ClusterView } from "../cluster-view.ts";

/** IPAddresses by their address: it may be in several spaces. */
export class PublishedAddresses {
  readonly #keys = new Map<string, Set<string>>();

  /** An IPAddress, by its key, is there, has gone, or has another address. */
  note(key: string, before: Address | undefined, after: Address | undefined): void {
    if (before !== undefined) {
      const text = formatAddress(before);
      const keys = this.#keys.get(text);
      keys?.delete(key);
      if (keys?.size === 0) this.#keys.delete(text);
    }
    if (after === undefined) return;
    const text = formatAddress(after);
    this.#keys.set(text, (this.#keys.get(text) ?? new Set()).add(key));
  }

  keysOf(address: Address): readonly string[] {
    return [...(this.#keys.get(formatAddress(address)) ?? [])];
  }
}

/** Whether a shared block has addresses of a pool that are not allocated, as far as the watches show. */
export function hasFreeAddress(view: ClusterView, { space, family, usable }: AddressPool): boolean {
  for (const [name, block] of view.blocks.entries) {
    if (block?.owner.kind !== "Shared" || block.space !== space || block.prefix.family !== family) continue;
    const size = Number(usable.clip(rangeOf(block.prefix)).size);
    if (size > (view.allocationsIn.get(name) ?? 0)) return true;
  }
  return false;
}
