import type { Records } from "../records/records.ts";
import type { EventCounts } from "./events/event-poster.ts";

/** The node as metrics, probes and status see it, read at each of them. */
export interface ObservedNode {
  readonly records: Records;
  readonly recordsDirectory: string;
  /** Where the CNI executable finds the daemon. */
  readonly cniSocket: string;
  /** Directory of all allocations. */
  readonly root: string;
  /** What is wrong with that directory's file system now. */
  readonly rootProblem: () => Promise<string | undefined>;
  /** Configured pools, and what kubelet knows of their devices. */
  readonly pools: () => readonly {
    readonly name: string;
    readonly devices: readonly { readonly healthy: boolean }[];
    /** Whether its switch serves ports, also where it has no devices because all ports are for claims. */
    readonly healthy: boolean;
    /** Ports that claims may have. */
    readonly claimPorts: number;
  }[];
  /** One for each resource that should be registered, also where its plugin could not be started. */
  readonly plugins: () => readonly {
    readonly resource: string;
    readonly registered: boolean;
    /** Registrations with kubelet since the daemon started. */
    readonly registrations: number;
  }[];
  /** Sockets made accessible to their pool's group since the daemon started. */
  readonly socketsOpened: () => number;
  /** What became of Kubernetes events since the daemon started. */
  readonly events: () => Readonly<EventCounts>;
}
