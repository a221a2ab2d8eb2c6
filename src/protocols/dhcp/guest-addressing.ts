/** What a guest is given on its interface. */
export interface GuestAddressing {
  /** Its MAC, six bytes with colons. */
  readonly mac: string;
  /** Bytes; absent says nothing to the guest. */
  readonly mtu?: number | undefined;
  /** With prefix length. */
  readonly addresses: readonly { readonly address: string; readonly gateway?: string | undefined }[];
  /** Destinations with prefix length; without `gw` the gateway of the first address of the family is meant (CNI spec 1.1.0). */
  readonly routes: readonly { readonly dst: string; readonly gw?: string | undefined }[];
  readonly dns: {
    readonly nameservers: readonly string[];
    readonly domain?: string | undefined;
    readonly search: readonly string[];
  };
}

/**
 * Seconds. A guest keeps its addresses through days without a daemon; it asks half a day after it got them, and from the
 * first day on it asks all servers, so that it learns of changes.
 */
export const LEASE = { lifetime: 604_800, renewal: 43_200, rebinding: 86_400 } as const;

/**
 * The MAC that answers come from, the same on all nodes, so that a guest that migrated knows its server; it is seen
 * by no other port than the guest's.
 */
export const SERVER_MAC: Buffer = Buffer.from("027668750001", "hex");

/** A domain name as DNS has it on the wire (RFC 1035 section 3.1), without compression; undefined for what is no name. */
export function domainName(name: string): Buffer | undefined {
  const labels = name.replace(/\.$/, "").split(".");
  if (labels.some((label) => !/^[\x21-\x7e]{1,63}$/.test(label))) return undefined;
  const bytes = Buffer.concat([
    ...labels.map((label) => Buffer.from(`${String.fromCharCode(label.length)}${label}`, "latin1")),
    Buffer.alloc(1),
  ]);
  return bytes.length <= 255 ? bytes : undefined;
}

/** The names to search, and the domain if that is all there is. */
export function searchList({ domain, search }: GuestAddressing["dns"]): Buffer {
  const names = search.length > 0 ? search : [domain ?? ""];
  return Buffer.concat(names.flatMap((name) => domainName(name) ?? []));
}
