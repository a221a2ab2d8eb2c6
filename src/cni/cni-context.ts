import type { ContainerTurns } from "../attachment/container-turns.ts";
import type { NodeContext } from "../attachment/node-context.ts";
import type { Clock } from "../clock/clock.ts";
import type { Logger } from "../logging/logger.ts";

/** What the CNI verbs work with. */
export interface CniContext {
  readonly node: NodeContext;
  /** The reconciler's too. */
  readonly turns: ContainerTurns;
  /** Our devices that kubelet says a pod holds. @throws Failure kubelet-unavailable */
  readonly devicesOfPod: (namespace: string, name: string) => Promise<readonly string[]>;
  readonly clock: Clock;
  readonly logger: Logger;
}
