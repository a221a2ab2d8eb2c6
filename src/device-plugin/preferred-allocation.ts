/** kubelet's question which devices each container should best get. */
export interface PreferredAllocationRequest {
  readonly container_requests: readonly {
    /** Free devices, the must-include ones among them. */
    readonly available_deviceIDs: readonly string[];
    readonly must_include_deviceIDs: readonly string[];
    /** How many are wanted in all. */
    readonly allocation_size: number;
  }[];
}

/**
 * The devices to prefer: those that must be in, then those that were free for longest. All devices of a pool are near to
 * the same NUMA node, which kubelet's topology manager knows from the list. Never an error, which would fail the pod for
 * a mere hint: kubelet tops up a short answer. The same question has the same answer.
 * @param lastUse grows with the time of a device's last use, 0 for never; undefined for one that was never listed,
 *   which comes last
 */
export function preferDevices(
  request: PreferredAllocationRequest["container_requests"][number],
  lastUse: (id: string) => number | undefined,
): readonly string[] {
  const must = new Set(request.must_include_deviceIDs);
  const free = [...new Set(request.available_deviceIDs)]
    .filter((id) => !must.has(id))
    .map((id) => ({ id, lastUse: lastUse(id) ?? Number.POSITIVE_INFINITY }))
    .sort((one, other) =>
      one.lastUse === other.lastUse ? (one.id < other.id ? -1 : 1) : one.lastUse - other.lastUse,
    )
    .map(({ id }) => id);
  const { allocation_size: size } = request;
  return [...must, ...free].slice(0, Number.isFinite(size) ? Math.max(0, size) : 0);
}
