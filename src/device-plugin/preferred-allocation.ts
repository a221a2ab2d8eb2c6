/** kubelet's question which of the free devices a container should best get. */
export interface PreferenceRequest {
  /** Free devices, the must-include ones among them. */
  readonly available: readonly string[];
  readonly mustInclude: readonly string[];
  /** How many are wanted in all. */
  readonly size: number;
}

/**
 * The devices to prefer: those that must be in, then those that were free for longest. All devices of a pool are near to
 * the same NUMA node, which kubelet's topology manager knows from the list. Never an error, which would fail the pod for
 * a mere hint: kubelet tops up a short answer. The same question has the same answer.
 * @param lastUse grows with the time of a device's last use, 0 for never; undefined for one that was never listed,
 *   which comes last
 */
export function preferDevices(
  { available, mustInclude, size }: PreferenceRequest,
  lastUse: (id: string) => number | undefined,
): readonly string[] {
  const must = new Set(mustInclude);
  const free = [...new Set(available)]
    .filter((id) => !must.has(id))
    .map((id) => ({ id, lastUse: lastUse(id) ?? Number.POSITIVE_INFINITY }))
    .sort((one, other) =>
      one.lastUse === other.lastUse ? (one.id < other.id ? -1 : 1) : one.lastUse - other.lastUse,
    )
    .map(({ id }) => id);
  const wanted = Number.isFinite(size) ? Math.max(0, Math.trunc(size)) : 0;
  return [...must, ...free].slice(0, wanted);
}
