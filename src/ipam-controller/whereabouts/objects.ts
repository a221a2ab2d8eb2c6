// Objects of whereabouts (whereabouts.cni.cncf.io/v1alpha1, v0.5.4 to v0.9.4), as far as its addresses are imported.
import * as z from "zod";
import {
  ADDRESS_BITS,
  type Address,
  type Family,
  formatPrefix,
  type Prefix,
  parseAddress,
  prefixOf,
} from "../../addresses/address.ts";
import type { KubeObject, Resource } from "../../kube-api/client.ts";

const GROUP = { group: "whereabouts.cni.cncf.io", version: "v1alpha1" } as const;

/** Its resources, all in the namespace of its kubeconfig's context. */
export function whereaboutsResources(namespace: string) {
  return {
    pools: { ...GROUP, namespace, plural: "ippools" },
    reservations: { ...GROUP, namespace, plural: "overlappingrangeipreservations" },
    slices: { ...GROUP, namespace, plural: "nodeslicepools" },
  } as const satisfies Readonly<Record<string, Resource>>;
}

/** Container ID of the entries by which we keep addresses from whereabouts. */
const OUR_ID = "kube-vhostuser";

/** An address that is not free in whereabouts. */
export interface WhereaboutsEntry {
  readonly address: bigint;
  /** `namespace/name` of the pod that has it; undefined where we keep it from whereabouts. */
  readonly pod: string | undefined;
}

/** An IPPool: all that whereabouts has handed out of one range of one network. */
export interface WhereaboutsPool {
  readonly name: string;
  readonly prefix: Prefix;
  readonly entries: readonly WhereaboutsEntry[];
  /** As the API server returned it. */
  readonly object: KubeObject;
}

const poolSchema = z.looseObject({
  spec: z.looseObject({
    range: z.string(),
    allocations: z.record(z.string(), z.looseObject({ id: z.string(), podref: z.string() })).nullish(),
  }),
});

/** Undefined for a range that whereabouts cannot read either: it hands out nothing of it. */
export function parseWhereaboutsPool(object: KubeObject): WhereaboutsPool | undefined {
  const { range, allocations } = poolSchema.parse(object).spec;
  const found = parseHost(range);
  if (found === undefined) return undefined;
  const { address, prefix } = found;
  const entries = Object.entries(allocations ?? {}).flatMap(([offset, { id, podref }]) => {
    // It ignores others.
    if (!/^\d+$/.test(offset)) return [];
    const isOurs = id === OUR_ID && podref === "";
    return [{ address: address.value + BigInt(offset), pod: isOurs ? undefined : podref }];
  });
  return { name: object.metadata.name, prefix, entries, object };
}

/**
 * The IPPool in which these addresses are kept from whereabouts. It takes an entry without a pod for an address that
 * another interface has, and neither its DEL, nor its pod controller, nor its reconciler removes it.
 */
export function keptFrom({ object, prefix }: WhereaboutsPool, addresses: Iterable<bigint>): KubeObject {
  const { spec } = poolSchema.parse(object);
  const first = parseHost(spec.range)?.address ?? prefix;
  const kept = [...addresses].map((address) => [String(address - first.value), { id: OUR_ID, podref: "" }]);
  return { ...object, spec: { ...spec, allocations: { ...spec.allocations, ...Object.fromEntries(kept) } } };
}

/** A new IPPool, without an entry. */
export function newWhereaboutsPool(name: string, prefix: Prefix): KubeObject {
  const head = { apiVersion: `${GROUP.group}/${GROUP.version}`, kind: "IPPool", metadata: { name } };
  return { ...head, spec: { range: formatPrefix(prefix), allocations: {} } };
}

/** The name of the IPPool of a range (`IPPoolName` in whereabouts' pkg/storage/kubernetes/ipam.go). */
export function whereaboutsPoolName(network: string | undefined, prefix: Prefix): string {
  const range = formatPrefix(prefix).replaceAll(/[:/]/g, "-");
  return network === undefined ? range : `${network}-${range}`;
}

/**
 * The pod of an OverlappingRangeIPReservation, and the addresses that it may be for: its name is the address, with the
 * network's name before it, and hyphens in place of colons.
 * @param network only of the network with this `network_name`; undefined for those of all networks
 */
export function parseReservation(
  object: KubeObject,
  network: string | undefined,
): { readonly addresses: readonly Address[]; readonly pod: string } {
  const { podref: pod } = z.looseObject({ podref: z.string() }).parse(object["spec"]);
  const { name } = object.metadata;
  if (network !== undefined) {
    const isOf = name.startsWith(`${network}-`);
    const address = isOf ? parseAddress(name.slice(network.length + 1).replaceAll("-", ":")) : undefined;
    return { addresses: address === undefined ? [] : [address], pod };
  }
  const parts = name.split("-");
  const texts = parts.map((_, index) => parts.slice(index).join(":"));
  return { addresses: texts.flatMap((text) => parseAddress(text) ?? []), pod };
}

/** The range of a NodeSlicePool, of which each node has an IPPool of its own. */
export function parseSlicedRange({ spec }: KubeObject): Prefix | undefined {
  const { data } = z.looseObject({ range: z.string() }).safeParse(spec);
  return data && parseHost(data.range)?.prefix;
}

/** A NetworkAttachmentDefinition whose addresses whereabouts hands out. */
export interface WhereaboutsNetwork {
  /** `namespace/name`. */
  readonly name: string;
  /** `network_name`. */
  readonly network: string | undefined;
  /** None where they are in whereabouts' file on the nodes, which cannot be read here. */
  readonly ranges: readonly Prefix[];
  readonly isSliced: boolean;
}

const text = z.string().nullish();
const ipamSchema = z.looseObject({
  type: text,
  range: text,
  ipRanges: z.array(z.looseObject({ range: text })).nullish(),
  network_name: text,
  node_slice_size: text,
});
const pluginSchema = z.looseObject({ ipam: ipamSchema.nullish() });
const networkSchema = pluginSchema.extend({ plugins: z.array(pluginSchema).nullish() });

/** What whereabouts does for a NetworkAttachmentDefinition; nothing where it names another plugin. */
export function parseWhereaboutsNetworks(object: KubeObject): readonly WhereaboutsNetwork[] {
  const { namespace, name } = object.metadata;
  const { config } = (object["spec"] ?? {}) as { readonly config?: unknown };
  const { data } = networkSchema.safeParse(jsonOf(config));
  return [data, ...(data?.plugins ?? [])].flatMap((plugin) => {
    const ipam = plugin?.ipam;
    if (ipam?.type !== "whereabouts") return [];
    const ranges = [ipam.range, ...(ipam.ipRanges ?? []).map(({ range }) => range)];
    return [
      {
        name: `${namespace}/${name}`,
        network: ipam.network_name || undefined,
        // `first-last/length` is a range too.
        ranges: ranges.flatMap((range) => parseHost(range?.split("-").at(-1) ?? "")?.prefix ?? []),
        isSliced: Boolean(ipam.node_slice_size),
      },
    ];
  });
}

function jsonOf(config: unknown): unknown {
  try {
    return JSON.parse(String(config));
  } catch {
    return undefined;
  }
}

/** An address with the length of its network's prefix. */
function parseHost(range: string): { readonly address: Address; readonly prefix: Prefix } | undefined {
  const [, base = "", digits = ""] = /^([^/]+)\/(\d{1,3})$/.exec(range) ?? [];
  const [address, length] = [parseAddress(base), Number(digits)];
  if (address === undefined || length > bitsOf(address.family)) return undefined;
  return { address, prefix: prefixOf(address, length) };
}

function bitsOf(family: Family): number {
  return ADDRESS_BITS[family];
}
