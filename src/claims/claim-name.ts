import type { AddressPool } from "../address-objects/address-pool.ts";

/** What kubevirt/ipam-extensions keeps of a name: runs of these, in which hyphens are not the first or last character. */
const LABEL = /[a-z0-9](?:[-a-z0-9]*[a-z0-9])?/g;
const MAX_LENGTH = 253;

/**
 * The name of a VM's claim for one of its networks, as kubevirt/ipam-extensions makes it (pkg/claims, ComposeKey): in
 * lower case, with a dot for every run of other characters. Two networks may so have one name (`net_a` and `net.a`).
 * @param network its name in the VMI's `spec.networks`
 */
export function claimName(vmi: string, network: string): string {
  const labels = `${vmi}.${network}`.toLowerCase().match(LABEL) ?? [];
  return labels.join(".").slice(0, MAX_LENGTH);
}

/**
 * What a pool with `sticky: Key` keeps a claim's address for: the claim's namespace and name, and so a VM and its network.
 * Undefined for other pools: an IPAMClaim has no MAC address.
 */
export function claimKey(
  { sticky }: Pick<AddressPool, "sticky">,
  { namespace, name }: { readonly namespace: string; readonly name: string },
): string | undefined {
  return sticky === "Key" ? `${namespace}/ipamclaim/${name}` : undefined;
}
