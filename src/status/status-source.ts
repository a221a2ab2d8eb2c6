import { dirname, join } from "node:path";
import type { NodeContext } from "../attachment/node-context.ts";
import type { DaemonConfig } from "../config/schema.ts";
import type { PodDevices } from "../kubelet/pod-resources.ts";
import type { ObservedNode } from "../observe/observed-node.ts";
import type { ObservedCounts } from "../observe/observer.ts";
import type { Clock } from "../sync/clock.ts";

/** What the status of a node is read from. */
export interface StatusSource {
  readonly context: NodeContext;
  readonly view: Pick<ObservedNode, "pools" | "plugins" | "socketsOpened" | "rootProblem">;
  readonly counts: () => Promise<ObservedCounts>;
  /** Reads PodResources; rejects when it cannot be read. */
  readonly listPods: () => Promise<readonly PodDevices[]>;
  /** Release that runs. */
  readonly version: string;
  readonly startedAt: number;
  readonly clock: Clock;
}

/** Where the status is served: as configured, else beside the CNI socket, whose directory is root's. */
export function statusSocket({
  statusSocket: path,
  cniSocket,
}: Pick<DaemonConfig, "statusSocket" | "cniSocket">): string {
  return path ?? join(dirname(cniSocket), "status.sock");
}
