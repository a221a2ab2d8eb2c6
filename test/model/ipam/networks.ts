import { newAllocation } from "../../../src/address-objects/address-allocation.ts";
import { newBlock } from "../../../src/address-objects/address-block.ts";
import { type AddressPool, parseAddressPool } from "../../../src/address-objects/address-pool.ts";
import { IPAM_API_VERSION } from "../../../src/address-objects/resources.ts";
import { parseAddress, parsePrefix } from "../../../src/addresses/address.ts";
import { RangeSet } from "../../../src/addresses/range-set.ts";
import { parseRange } from "../../../src/addresses/subnet.ts";
import type { Json, ObjectStore } from "../../stand-in/api-server/object-store.ts";
import type { Sandbox } from "./truth.ts";

/** Of all pools, in seconds. */
export const COOLDOWN_SECONDS = 30;

interface Network {
  readonly space: string;
  readonly ipam: object;
}

/** Pools that overlap, ranges within them, two families, and a space that has the same addresses again. */
export const NETWORKS: Readonly<Record<string, Network>> = {
  blue: { space: "default", ipam: { pools: ["blue"] } },
  green: { space: "default", ipam: { pools: ["green"] } },
  dual: { space: "default", ipam: { pools: ["blue", "six"] } },
  island: { space: "island", ipam: { pools: ["island"] } },
  ranges: {
    space: "default",
    ipam: { ranges: [[{ subnet: "10.0.0.0/24", rangeStart: "10.0.0.24", rangeEnd: "10.0.0.47" }]] },
  },
};

/** The configuration that the plugin which delegates passes on. */
export function networkConfig(name: string, keep: readonly Sandbox[], ips: readonly object[]): object {
  return {
    ...{ cniVersion: "1.1.0", name, type: "bridge" },
    ipam: { type: "kube-vhostuser-ipam", ...NETWORKS[name]?.ipam },
    "cni.dev/valid-attachments": keep.map(({ containerId, interfaceName }) => ({
      containerID: containerId,
      ifname: interfaceName,
    })),
    ...(ips.length === 0 ? {} : { prevResult: { ips } }),
  };
}

const space = (name: string): Json => ({
  ...{ apiVersion: IPAM_API_VERSION, kind: "AddressSpace", metadata: { name } },
  // Blocks of four addresses: they run out, are taken and given back all the time.
  spec: { blockPrefixes: { ipv4: 30, ipv6: 126 } },
});

/** Blue may be small or large: see {@link poolSubnets}. */
const pool = (name: string, of: string, subnets: readonly object[]): Json => ({
  ...{ apiVersion: IPAM_API_VERSION, kind: "AddressPool", metadata: { name } },
  spec: { space: of, subnets, cooldownSeconds: COOLDOWN_SECONDS },
});

/** What blue has as it grows, and shrinks. */
export function poolSubnets(size: number): readonly object[] {
  return [
    { cidr: "10.0.0.0/24", ranges: [`10.0.0.0-10.0.0.${15 + size * 16}`], gateway: "10.0.0.1" },
    ...(size > 2 ? [{ cidr: "10.0.1.0/28" }] : []),
  ];
}

/** What an administrator creates first, by resource. */
export const OBJECTS: readonly (readonly [collection: string, object: Json])[] = [
  ["addressspaces", space("default")],
  ["addressspaces", space("island")],
  ["addresspools", pool("blue", "default", poolSubnets(2))],
  ["addresspools", pool("green", "default", [{ cidr: "10.0.0.16/28" }])],
  ["addresspools", pool("six", "default", [{ cidr: "fd00::/64" }])],
  ["addresspools", pool("island", "island", [{ cidr: "10.0.0.0/28" }])],
  ["addressblocks", ownedByOthers("10.0.0.20/30", "Foreign")],
  ["addressblocks", ownedByOthers("10.0.0.8/30", "Shared")],
  // So that the controller does not give that block back.
  ["addressallocations", ofClaim("10.0.0.9")],
];

/** What a network's addresses come from. */
export function poolsOf(
  network: string,
  store: ObjectStore,
): readonly Pick<AddressPool, "space" | "family" | "usable">[] {
  const { pools } = (NETWORKS[network]?.ipam ?? {}) as { readonly pools?: readonly string[] };
  if (pools !== undefined) return pools.map((name) => parseAddressPool(store.get("addresspools", name)));
  const range = parseRange("10.0.0.24-10.0.0.47");
  return range === undefined ? [] : [{ space: "default", family: "ipv4", usable: RangeSet.of([range]) }];
}

function ofClaim(text: string): Json {
  const address = parseAddress(text);
  if (address === undefined) throw new Error(text);
  const owner = { kind: "IPAMClaim", namespace: "ns", name: "vm.net", uid: "claim", network: "net" };
  return newAllocation({ space: "default", pool: "blue", address, node: undefined, owner, key: undefined });
}

function ownedByOthers(cidr: string, kind: "Foreign" | "Shared"): Json {
  const prefix = parsePrefix(cidr);
  if (prefix === undefined) throw new Error(cidr);
  return newBlock({ space: "default", prefix, owner: { kind }, state: "Bound", pool: undefined });
}
