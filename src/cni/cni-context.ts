import type { KeyedLock } from "../attachment/keyed-lock.ts";
import type { NodeContext } from "../attachment/node-context.ts";
import type { Clock } from "../clock/clock.ts";
import type { Logger } from "../logging/logger.ts";

/** What the CNI verbs work with. */
export interface CniContext {
  readonly node: NodeContext;
  /** Keyed by container id; the reconciler takes it too. */
  readonly lock: KeyedLock;
  /** Devices that kubelet says a pod holds, for networks that come without a device id. */
  readonly devicesOfPod: (namespace: string, name: string, signal: AbortSignal) => Promise<readonly string[]>;
  readonly clock: Clock;
  readonly logger: Logger;
}
