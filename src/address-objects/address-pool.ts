import * as z from "zod";
import { type Address, type Family, isInPrefix, type Prefix } from "../addresses/address.ts";
import { RangeSet } from "../addresses/range-set.ts";
import { parseRange, rangeOf, usableAddresses } from "../addresses/subnet.ts";
import type { KubeObject } from "../kube-api/client.ts";
import {
  dnsSchema,
  invalidObject,
  type ObjectIdentity,
  parseObject,
  routeSchema,
  subnetSchema,
} from "./fields.ts";
import { DEFAULT_SPACE, IPAM_API_VERSION } from "./resources.ts";

/** A subnet with what of it can be handed out. */
export interface Subnet {
  readonly prefix: Prefix;
  readonly gateway: Address | undefined;
  readonly usable: RangeSet;
}

/** A pool with addresses that whereabouts hands out, or has handed out. */
export interface WhereaboutsImport {
  /** Of that network (`network_name`) alone; undefined for all of them. */
  readonly networkName: string | undefined;
  /** What whereabouts hands out no more, as the controller has recorded it. It only grows. */
  readonly imported: RangeSet;
}

/** Whose addresses a network's interfaces get: all of one family and one space. */
export interface AddressPool extends ObjectIdentity {
  readonly space: string;
  readonly family: Family;
  readonly subnets: readonly Subnet[];
  /** Of all subnets; while addresses are imported, those that are ours by now. */
  readonly usable: RangeSet;
  /** What the subnets say, whether it is imported or not. */
  readonly configured: RangeSet;
  /** Undefined for a pool whose addresses whereabouts does not hand out. */
  readonly whereabouts: WhereaboutsImport | undefined;
  readonly routes: readonly z.infer<typeof routeSchema>[];
  readonly dns: z.infer<typeof dnsSchema> | undefined;
  /** Who hands addresses out: nodes from blocks of their own, or each address by an AddressAllocation. */
  readonly mode: "NodeBlocks" | "PerAddress";
  /** What an address is kept for after its release: the MAC or the key that an interface asks with. */
  readonly sticky: "MAC" | "Key" | undefined;
  /** How long an address rests after its release. */
  readonly cooldownSeconds: number;
}

const schema = z.looseObject({
  spec: z.looseObject({
    space: z.string().min(1).default(DEFAULT_SPACE),
    subnets: z.array(subnetSchema.loose()).min(1, "must have a subnet"),
    routes: z.array(routeSchema).default([]),
    dns: dnsSchema.loose().optional(),
    mode: z.enum(["NodeBlocks", "PerAddress"]).default("NodeBlocks"),
    sticky: z.enum(["MAC", "Key"]).optional(),
    cooldownSeconds: z.int().min(0).default(60),
    whereabouts: z.looseObject({ networkName: z.string().min(1).optional() }).optional(),
  }),
  status: z
    .looseObject({ whereabouts: z.looseObject({ imported: z.array(z.string()).default([]) }).optional() })
    .optional(),
});

/** @throws Failure `invalid-address-object` */
export function parseAddressPool(object: unknown): AddressPool {
  const { content, ...identity } = parseObject("AddressPool", schema, object);
  const { space, routes, dns, mode, sticky, cooldownSeconds } = content.spec;
  const whereabouts = content.spec.whereabouts && {
    networkName: content.spec.whereabouts.networkName,
    imported: RangeSet.of(
      (content.status?.whereabouts?.imported ?? []).flatMap((one) => parseRange(one) ?? []),
    ),
  };
  const wanted = content.spec.subnets.map(subnetOf);
  const subnets =
    whereabouts === undefined
      ? wanted
      : wanted.map((subnet) => ({ ...subnet, usable: subnet.usable.and(whereabouts.imported) }));
  const [family, ...others] = new Set(subnets.map(({ prefix }) => prefix.family));
  const refuse = (what: string) => invalidObject("AddressPool", identity.name, `spec.subnets: ${what}`);
  if (family === undefined || others.length > 0) throw refuse("a pool has IPv4 or IPv6 subnets, not both");
  const all = RangeSet.of(subnets.map(({ prefix }) => rangeOf(prefix)));
  if (all.size < subnets.reduce((sum, { prefix }) => sum + RangeSet.of([rangeOf(prefix)]).size, 0n))
    throw refuse("two subnets overlap; write what to hand out of one subnet into its ranges");
  const [usable, configured] = [unionOf(subnets), unionOf(wanted)];
  const settings = { routes, dns, mode, sticky, cooldownSeconds, whereabouts };
  return { ...identity, space, family, subnets, usable, configured, ...settings };
}

function unionOf(subnets: readonly Subnet[]): RangeSet {
  return subnets.reduce((union, { usable }) => union.plus(usable), RangeSet.EMPTY);
}

/** A subnet as {@link subnetSchema} gives it, with what of it can be handed out. */
export function subnetOf({ cidr, ranges, exclude, gateway }: z.infer<typeof subnetSchema>): Subnet {
  return { prefix: cidr, gateway, usable: usableAddresses({ prefix: cidr, ranges, exclude, gateway }) };
}

/** The subnet from which an address is handed out; undefined where none of them has it. */
export function subnetOfAddress(
  { subnets }: Pick<AddressPool, "subnets">,
  address: Address,
): Subnet | undefined {
  return subnets.find(({ prefix, usable }) => isInPrefix(prefix, address) && usable.has(address.value));
}

/** A condition as Kubernetes' conventions have it; `lastTransitionTime` in RFC 3339. */
export interface Condition {
  readonly type: "Ready" | "NearlyFull" | "Exhausted" | "Overlapping" | "Imported";
  readonly status: "True" | "False" | "Unknown";
  readonly reason: string;
  readonly message: string;
  readonly lastTransitionTime: string;
  readonly observedGeneration?: number;
}

/** Counts of addresses; of a number above 2^53-1 this. */
export interface PoolStatus {
  readonly total: number;
  /** In blocks that have an owner. */
  readonly inBlocks: number;
  readonly used: number;
  readonly free: number;
  /** How many blocks with the pool's addresses have an owner. */
  readonly blocks: number;
  /** Of a pool with addresses of whereabouts. */
  readonly whereabouts?: {
    /** `first-last`: what whereabouts hands out no more. */
    readonly imported: readonly string[];
    /** Addresses that pods still have from it; absent before the first look. */
    readonly left?: number;
  };
  readonly conditions: readonly Condition[];
}

/** A number of addresses as JSON can hold it exactly: at most 2^53-1. */
export function boundedCount(count: bigint): number {
  return Number(count < BigInt(Number.MAX_SAFE_INTEGER) ? count : BigInt(Number.MAX_SAFE_INTEGER));
}

/** The object for an update of a pool's status, which conflicts where the pool has changed since it was read. */
export function poolStatusUpdate(
  { name, resourceVersion }: Pick<ObjectIdentity, "name" | "resourceVersion">,
  status: PoolStatus,
): KubeObject {
  return { apiVersion: IPAM_API_VERSION, kind: "AddressPool", metadata: { name, resourceVersion }, status };
}
