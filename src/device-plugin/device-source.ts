/** A device as kubelet sees it. */
export interface PluginDevice {
  /** At most 63 characters, unique in the resource. */
  readonly id: string;
  /** An unhealthy device counts as capacity, but is given to no pod. */
  readonly healthy: boolean;
  /** NUMA nodes that it is near to; empty for no affinity. */
  readonly numaNodes: readonly number[];
}

/** Where a plugin gets its devices from. */
export interface DeviceSource {
  /** All devices now; one that is left out is gone from the node's capacity. */
  current(): readonly PluginDevice[];
  /** Calls `listener` after every change, until the returned function is called. */
  subscribe(listener: () => void): () => void;
}
