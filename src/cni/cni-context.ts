import type { NodeContext } from "../attachment/node-context.ts";
import type { Logger } from "../logging/logger.ts";
import type { Clock } from "../sync/clock.ts";
import type { KeyedMutex } from "../sync/keyed-mutex.ts";
import type { DeviceHolders } from "./device-holders.ts";
import type { StaleRequestFilter } from "./stale-requests.ts";

/** What the CNI verbs work with. */
export interface CniContext {
  readonly node: NodeContext;
  /** Of ports; shared with the reconciler. */
  readonly locks: KeyedMutex;
  readonly stale: StaleRequestFilter;
  /** Which pod holds which of our devices, as kubelet says. */
  readonly holders: Pick<DeviceHolders, "holds" | "devicesOf">;
  readonly clock: Clock;
  readonly logger: Logger;
}
