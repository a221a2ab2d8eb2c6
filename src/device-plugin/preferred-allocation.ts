/** kubelet's question which of the free devices a container should best get. */
export interface PreferenceRequest {
  /** Free devices, the must-include ones among them. */
  readonly available: readonly string[];
  readonly mustInclude: readonly string[];
  /** How many are wanted in all. */
  readonly size: number;
}

/** What is known of a device that is on offer. */
export interface Candidate {
  /** NUMA nodes that it is near to; empty for no affinity. */
  readonly numaNodes: readonly number[];
  /** Grows with the time of its last use; 0 for never. */
  readonly lastUse: number;
}

interface NumaGroup {
  readonly key: string;
  /** How many of the must-include devices are near. */
  readonly must: number;
  /** The longest free first. */
  readonly free: readonly string[];
}

/** Last of all: a device that was on kubelet's list but is not on ours any more. */
const GONE: Candidate = { numaNodes: [], lastUse: Number.POSITIVE_INFINITY };

/**
 * The devices to prefer: those that must be in; then such as share their NUMA node, as few nodes as can be and of
 * those that suffice the one with the least room; of a node's the longest free. Never an error, which would fail
 * the pod for a mere hint: kubelet tops up a short answer. The same question has the same answer.
 * @param look undefined for a device that is not listed
 */
export function preferDevices(
  request: PreferenceRequest,
  look: (id: string) => Candidate | undefined,
): readonly string[] {
  const must = new Set(request.mustInclude);
  const candidates = new Map([...must, ...request.available].map((id) => [id, look(id) ?? GONE]));
  const wanted = Number.isFinite(request.size) ? Math.max(0, Math.trunc(request.size)) : 0;
  const groups = groupByNode(candidates, must);
  const chosen = [...must];
  while (chosen.length < wanted && groups.length > 0) {
    const missing = wanted - chosen.length;
    groups.sort((one, other) => compareGroups(one, other, missing));
    chosen.push(...(groups.shift()?.free.slice(0, missing) ?? []));
  }
  return chosen.slice(0, wanted);
}

function groupByNode(candidates: ReadonlyMap<string, Candidate>, must: ReadonlySet<string>): NumaGroup[] {
  const ids = new Map<string, string[]>();
  for (const [id, { numaNodes, lastUse }] of candidates) {
    // Devices that are gone are a group of their own, after those without a node.
    const key = lastUse === GONE.lastUse ? "~" : [...numaNodes].sort((a, b) => a - b).join();
    const group = ids.get(key);
    if (group === undefined) ids.set(key, [id]);
    else group.push(id);
  }
  return [...ids].map(([key, members]) => ({
    key,
    must: members.filter((id) => must.has(id)).length,
    free: members
      .filter((id) => !must.has(id))
      .map((id) => ({ id, lastUse: candidates.get(id)?.lastUse ?? 0 }))
      .sort((one, other) => one.lastUse - other.lastUse || compareText(one.id, other.id))
      .map(({ id }) => id),
  }));
}

/** Negative where `one` is to be taken from before `other`. */
function compareGroups(one: NumaGroup, other: NumaGroup, missing: number): number {
  const gone = Number(one.key === "~") - Number(other.key === "~");
  if (gone !== 0) return gone;
  if (one.must !== other.must) return other.must - one.must;
  const oneFits = one.free.length >= missing;
  const otherFits = other.free.length >= missing;
  if (oneFits !== otherFits) return oneFits ? -1 : 1;
  const bySize = one.free.length - other.free.length;
  if (bySize !== 0) return oneFits ? bySize : -bySize;
  return compareText(one.key, other.key);
}

function compareText(one: string, other: string): number {
  return one < other ? -1 : Number(one > other);
}
