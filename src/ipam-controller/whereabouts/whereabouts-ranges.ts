// What whereabouts has, read at the API server, and the addresses of our pools that are kept from it.
import type { AddressPool } from "../../address-objects/address-pool.ts";
import { formatPrefix, type Prefix } from "../../addresses/address.ts";
import { RangeSet } from "../../addresses/range-set.ts";
import { rangeOf } from "../../addresses/subnet.ts";
import { NADS } from "../../claims/resources.ts";
import { ApiFailure } from "../../kube-api/api-failure.ts";
import type { KubeApi, KubeObject, Resource } from "../../kube-api/client.ts";
import type { ImportProblem } from "./finding.ts";
import {
  keptFrom,
  newWhereaboutsPool,
  parseSlicedRange,
  parseWhereaboutsNetworks,
  parseWhereaboutsPool,
  type WhereaboutsNetwork,
  type WhereaboutsPool,
  whereaboutsPoolName,
  whereaboutsResources,
} from "./objects.ts";

/** An IPPool with more entries comes near what etcd stores (1.5 MiB): one has up to 200 bytes. */
const MAX_ENTRIES = 6_000n;

/** What is used of the API. */
export type WhereaboutsApi = Pick<KubeApi, "list" | "create" | "update">;

/** A pool of ours with addresses of whereabouts. */
export interface ImportingPool extends AddressPool {
  readonly whereabouts: NonNullable<AddressPool["whereabouts"]>;
}

/** What of one of our pools is kept from whereabouts by now. */
export interface KeptAddresses {
  /** Free addresses are kept from whereabouts, and `pools` has all others. */
  readonly kept: RangeSet;
  /** The ranges that have addresses of ours. */
  readonly pools: readonly WhereaboutsPool[];
  readonly problem: ImportProblem | undefined;
}

/** All that whereabouts has of ranges. */
export class WhereaboutsRanges {
  readonly #api: WhereaboutsApi;
  readonly #resources: ReturnType<typeof whereaboutsResources>;
  readonly #pools: Map<string, WhereaboutsPool>;
  readonly #networks: readonly WhereaboutsNetwork[];
  /** NodeSlicePools by name. */
  readonly #slices: readonly (readonly [string, Prefix])[];

  private constructor(
    api: WhereaboutsApi,
    namespace: string,
    [pools, slices, networks]: readonly (readonly KubeObject[])[],
  ) {
    this.#api = api;
    this.#resources = whereaboutsResources(namespace);
    const parsed = (pools ?? []).flatMap((object) => parseWhereaboutsPool(object) ?? []);
    this.#pools = new Map(parsed.map((pool) => [pool.name, pool]));
    this.#networks = (networks ?? []).flatMap(parseWhereaboutsNetworks);
    this.#slices = (slices ?? []).flatMap((object) => {
      const range = parseSlicedRange(object);
      return range === undefined ? [] : [[object.metadata.name, range] as const];
    });
  }

  /** @throws ApiFailure */
  static async read(api: WhereaboutsApi, namespace: string, signal: AbortSignal): Promise<WhereaboutsRanges> {
    const { pools, slices } = whereaboutsResources(namespace);
    const listOf = async (resource: Resource) => (await api.list(resource, {}, signal)).objects;
    const lists: (readonly KubeObject[])[] = [await listOf(pools)];
    // Releases before 0.8 have no slices, and a cluster without Multus no networks.
    for (const resource of [slices, NADS]) lists.push(await listOf(resource).catch(noneIfMissing));
    return new WhereaboutsRanges(api, namespace, lists);
  }

  /**
   * Keeps the free addresses of a pool from whereabouts, in every range that has some of them. An IPPool is written with the
   * version that was read, as whereabouts writes it: an address goes to one of the two.
   * @throws ApiFailure `conflict` or `exists` where whereabouts was faster
   */
  async keep(pool: ImportingPool, signal: AbortSignal): Promise<KeptAddresses> {
    const { pools: resource } = this.#resources;
    const { configured } = pool;
    const sliced = this.#slicedPart(pool);
    let left: RangeSet = configured.minus(sliced);
    let problem: ImportProblem | undefined =
      sliced.size === 0n
        ? undefined
        : {
            reason: "NodeSlices",
            message:
              "whereabouts gives each node a slice of the range (node_slice_size): remove that from its networks, or give the pool other addresses",
          };
    const pools: WhereaboutsPool[] = [];
    for (const [name, found] of await this.#rangesOf(pool, left, signal)) {
      const part = left.clip(rangeOf(found.prefix));
      const taken = RangeSet.of(found.entries.map(({ address }) => ({ first: address, last: address })));
      const free = part.minus(taken);
      if (free.size + BigInt(found.entries.length) > MAX_ENTRIES) {
        left = left.minus(part);
        const range = formatPrefix(found.prefix);
        const message = `The pool has ${part.size} addresses of whereabouts' range ${range}, and at most ${MAX_ENTRIES} of a range can be imported: write fewer into ranges, see docs/coming-from.md`;
        problem = { reason: "TooManyAddresses", message };
        continue;
      }
      if (free.size === 0n) {
        pools.push(found);
        continue;
      }
      const after = await this.#api.update(resource, keptFrom(found, free.values()), signal);
      const kept = parseWhereaboutsPool(after) ?? found;
      this.#pools.set(name, kept);
      pools.push(kept);
    }
    return { kept: left, pools, problem };
  }

  /** Ranges with addresses of the set. One that no pod has used yet gets its IPPool, so that its addresses can be kept. */
  async #rangesOf(
    { family, whereabouts: { networkName } }: ImportingPool,
    addresses: RangeSet,
    signal: AbortSignal,
  ): Promise<readonly (readonly [string, WhereaboutsPool])[]> {
    const isOurs = (prefix: Prefix) => prefix.family === family && addresses.clip(rangeOf(prefix)).size > 0n;
    const isOfNetwork = (name: string, prefix: Prefix) =>
      networkName === undefined || name === whereaboutsPoolName(networkName, prefix);
    for (const { network, ranges, isSliced } of this.#networks) {
      for (const prefix of isSliced ? [] : ranges) {
        const name = whereaboutsPoolName(network, prefix);
        if (this.#pools.has(name) || !isOurs(prefix) || !isOfNetwork(name, prefix)) continue;
        const made = await this.#api.create(this.#resources.pools, newWhereaboutsPool(name, prefix), signal);
        const pool = parseWhereaboutsPool(made);
        if (pool !== undefined) this.#pools.set(name, pool);
      }
    }
    return [...this.#pools].filter(([name, { prefix }]) => isOurs(prefix) && isOfNetwork(name, prefix));
  }

  /** IPPools of slices are made when a node's first pod comes: their addresses cannot be kept from it before. */
  #slicedPart({ configured, family, whereabouts: { networkName } }: ImportingPool): RangeSet {
    const ofNetworks = this.#networks.flatMap(({ network, ranges, isSliced }) =>
      isSliced && (networkName === undefined || network === networkName) ? ranges : [],
    );
    const ofSlices = this.#slices.flatMap(([name, prefix]) =>
      networkName === undefined || name === networkName ? [prefix] : [],
    );
    const sliced = [...ofNetworks, ...ofSlices].filter((prefix) => prefix.family === family);
    return configured.and(RangeSet.of(sliced.map(rangeOf)));
  }
}

function noneIfMissing(error: unknown): readonly KubeObject[] {
  if (error instanceof ApiFailure && error.problem === "not-found") return [];
  throw error;
}
