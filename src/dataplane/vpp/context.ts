import type { Logger } from "../../logging/logger.ts";
import type { VppClient } from "../../protocols/vpp-api/connection.ts";
import type { KeyedMutex } from "../../sync/keyed-mutex.ts";
import type { PortOwner } from "../port.ts";
import type { SharedViews } from "./shared-views.ts";

/** What every verb works with. */
export interface VppContext {
  readonly client: VppClient;
  /** How VPP's configuration is read. */
  readonly views: SharedViews;
  /** This node's name; a digest of it is part of the mark on its ports. */
  readonly node: string;
  /** Owners for which a port of this name was ever asked and is not given up: VPP keeps digests of them only. */
  readonly ownersOf: (port: string) => readonly PortOwner[];
  /** Turns at the loopbacks with the gateways of routed ports, which many ports share. */
  readonly gateways: KeyedMutex;
  /** Where sysfs is mounted. */
  readonly sysfs: string;
  readonly logger: Logger;
}
