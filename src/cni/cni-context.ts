import type { NodeContext } from "../attachment/node-context.ts";
import type { Logger } from "../logging/logger.ts";
import type { Clock } from "../sync/clock.ts";
import type { KeyedMutex } from "../sync/keyed-mutex.ts";
import type { DeviceHolders } from "./device-holders.ts";
import type { RequestOrder } from "./request-order.ts";

/** What the CNI verbs work with. */
export interface CniContext {
  readonly node: NodeContext;
  /** The reconciler's too. */
  readonly locks: KeyedMutex;
  readonly order: RequestOrder;
  /** Which pod holds which of our devices, by kubelet's word. */
  readonly holders: Pick<DeviceHolders, "holds" | "devicesOf">;
  readonly clock: Clock;
  readonly logger: Logger;
}
