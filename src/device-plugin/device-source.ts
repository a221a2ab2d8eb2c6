/** A device as kubelet sees it. */
export interface PluginDevice {
  /** At most 63 characters, unique in the resource. */
  readonly id: string;
  /** An unhealthy device counts as capacity, but is given to no pod. */
  readonly healthy: boolean;
  /** NUMA nodes that it is near to; empty for no affinity. */
  readonly numaNodes: readonly number[];
}

/** A device with what decides whether it is preferred. */
export interface FoundDevice extends PluginDevice {
  /** Grows with the time of its last use; 0 for never. */
  readonly lastUse: number;
}

/** Where a plugin gets its devices from. */
export interface DeviceSource {
  /** All devices now; one that is left out is gone from the node's capacity. A list once given does not change. */
  current(): readonly PluginDevice[];
  /** Calls `listener` after every change, until the returned function is called. */
  subscribe(listener: () => void): () => void;
  /**
   * The device that may be allocated under this id, also one that left the list so lately that kubelet need not know
   * yet. A source that leaves it out has its devices looked for in {@link current}.
   */
  find?(id: string): FoundDevice | undefined;
}

/** One device of a source. */
export function findDevice(source: DeviceSource, id: string): FoundDevice | undefined {
  if (source.find !== undefined) return source.find(id);
  const device = source.current().find((candidate) => candidate.id === id);
  return device && { ...device, lastUse: 0 };
}
