/** Devices as the nodes that the topology manager chose divide them. */
export interface SplitDevices {
  readonly aligned: readonly string[];
  readonly unaligned: readonly string[];
  /** Devices without a node; all of them where the topology manager has no opinion. */
  readonly none: readonly string[];
}

/** Divides free devices by the topology manager's choice of nodes. */
export function splitByAffinity(
  ids: readonly string[],
  nodesOf: (id: string) => readonly number[],
  affinity: readonly number[] | undefined,
): SplitDevices {
  if (affinity === undefined) return { aligned: [], unaligned: [], none: ids };
  const kind = (id: string): keyof SplitDevices => {
    const nodes = nodesOf(id);
    if (nodes.length === 0) return "none";
    return nodes.some((node) => affinity.includes(node)) ? "aligned" : "unaligned";
  };
  const of = (wanted: keyof SplitDevices) => ids.filter((id) => kind(id) === wanted);
  return { aligned: of("aligned"), unaligned: of("unaligned"), none: of("none") };
}

/**
 * Policy `single-numa-node` for one container: the lowest node that has enough free devices of each resource.
 * Resources whose devices have no node do not matter.
 * @returns undefined for no opinion
 */
export function singleNodeFor(
  resources: Readonly<Record<string, number>>,
  free: (resource: string) => readonly { readonly numaNodes: readonly number[] }[],
): number | "impossible" | undefined {
  const wishes = Object.entries(resources)
    .map(([resource, count]) => ({ count, devices: free(resource) }))
    .filter(({ count, devices }) => count > 0 && devices.some(({ numaNodes }) => numaNodes.length > 0));
  if (wishes.length === 0) return undefined;
  const nodes = new Set(wishes.flatMap(({ devices }) => devices.flatMap(({ numaNodes }) => numaNodes)));
  const fitting = [...nodes].filter((node) =>
    wishes.every(({ count, devices }) => devices.filter((d) => d.numaNodes.includes(node)).length >= count),
  );
  return fitting.length === 0 ? "impossible" : Math.min(...fitting);
}
