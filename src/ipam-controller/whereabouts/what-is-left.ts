// What whereabouts still has, for people who want to remove it.
import { parseAddressBlock } from "../../address-objects/address-block.ts";
import { parseAddressPool } from "../../address-objects/address-pool.ts";
import { ADDRESS_BLOCKS, ADDRESS_POOLS, selectorOf } from "../../address-objects/resources.ts";
import { formatAddress, formatPrefix, isInPrefix } from "../../addresses/address.ts";
import { rangeOf } from "../../addresses/subnet.ts";
import { NADS } from "../../claims/resources.ts";
import type { KubeApi, Resource } from "../../kube-api/client.ts";
import {
  parseReservation,
  parseWhereaboutsNetworks,
  parseWhereaboutsPool,
  type WhereaboutsPool,
  whereaboutsResources,
} from "./objects.ts";

/** An address that a pod has from whereabouts. */
export interface LeftAddress {
  readonly address: string;
  /** `namespace/name`, as whereabouts noted it. */
  readonly pod: string;
}

/** A range of whereabouts. */
export interface LeftRange {
  readonly range: string;
  /** Name of its IPPool. */
  readonly name: string;
  /** AddressPools that import from it. */
  readonly pools: readonly string[];
  readonly left: readonly LeftAddress[];
}

/** All that speaks against removing whereabouts. */
export interface WhatIsLeft {
  /** NetworkAttachmentDefinitions that name it, as `namespace/name`. */
  readonly networks: readonly string[];
  readonly ranges: readonly LeftRange[];
  /** Addresses that only a reservation has. */
  readonly reservations: readonly LeftAddress[];
  /** AddressBlocks that are left to it. */
  readonly blocks: readonly string[];
  readonly canBeRemoved: boolean;
}

/** @param namespace that of whereabouts' objects @throws ApiFailure */
export async function readWhatIsLeft(
  api: Pick<KubeApi, "list">,
  namespace: string,
  signal: AbortSignal,
): Promise<WhatIsLeft> {
  const resources = whereaboutsResources(namespace);
  const listOf = async (resource: Resource, labelSelector?: string) =>
    (await api.list(resource, labelSelector === undefined ? {} : { labelSelector }, signal)).objects;
  const networks = (await listOf(NADS)).flatMap(parseWhereaboutsNetworks).map(({ name }) => name);
  const ranges = (await listOf(resources.pools)).flatMap((object) => parseWhereaboutsPool(object) ?? []);
  const reserved = (await listOf(resources.reservations)).map((object) =>
    parseReservation(object, undefined),
  );
  const foreign = selectorOf({ owner: "Foreign" });
  const blocks = (await listOf(ADDRESS_BLOCKS, foreign)).map((object) => parseAddressBlock(object).name);
  const pools = (await listOf(ADDRESS_POOLS)).flatMap((object) => {
    const { name, family, configured, whereabouts } = parseAddressPool(object);
    return whereabouts === undefined ? [] : [{ name, family, configured }];
  });
  const found = ranges.map((range) => ({
    range: formatPrefix(range.prefix),
    name: range.name,
    pools: pools.flatMap(({ name, family, configured }) => {
      const isOf = family === range.prefix.family && configured.clip(rangeOf(range.prefix)).size > 0n;
      return isOf ? [name] : [];
    }),
    left: leftOf(range),
  }));
  const known = new Set(found.flatMap(({ left }) => left.map(({ address }) => address)));
  const reservations = reserved.flatMap(({ addresses, pod }) => {
    const own = addresses.find((one) => ranges.some(({ prefix }) => isInPrefix(prefix, one))) ?? addresses[0];
    const address = own === undefined ? "unknown" : formatAddress(own);
    return known.has(address) ? [] : [{ address, pod }];
  });
  const isEmpty = [networks, reservations, blocks, ...found.map(({ left }) => left)].every(
    (list) => list.length === 0,
  );
  return { networks, ranges: found, reservations, blocks, canBeRemoved: isEmpty };
}

function leftOf({ prefix: { family }, entries }: WhereaboutsPool): readonly LeftAddress[] {
  return entries.flatMap(({ address: value, pod }) =>
    pod === undefined ? [] : [{ address: formatAddress({ family, value }), pod }],
  );
}
