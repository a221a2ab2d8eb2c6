import type { Records } from "../records/records.ts";

/** A pool and what kubelet is told of its devices. */
export interface PoolView {
  readonly name: string;
  readonly devices: readonly { readonly healthy: boolean }[];
}

/** One resource's plugin and how it stands with kubelet. */
export interface PluginView {
  readonly resource: string;
  readonly registered: boolean;
  /** How often kubelet took a registration since the daemon started. */
  readonly registrations: number;
}

/** What became of Kubernetes events since the daemon started. */
export interface EventsView {
  readonly posted: number;
  readonly merged: number;
  readonly dropped: number;
  readonly failed: number;
}

/** The node as its parts see it. Asked at every scrape and probe, and nothing of it is kept. */
export interface NodeView {
  readonly records: Records;
  readonly recordsDirectory: string;
  /** Where the CNI executable finds the daemon. */
  readonly cniSocket: string;
  /** Pools that are configured now. */
  readonly pools: () => readonly PoolView[];
  /** One for each resource that should be registered, the dataplane's too, also where the plugin could not be started. */
  readonly plugins: () => readonly PluginView[];
  /** Sockets made accessible to their pool's group since the daemon started. */
  readonly socketsMended: () => number;
  readonly events: () => EventsView;
  /** Directory of all allocations, whose file system they fill. */
  readonly root: string;
}
