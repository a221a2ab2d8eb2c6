import type { Logger } from "../logging/logger.ts";
import type { Dataplane } from "./dataplane.ts";
import { openOvsDataplane } from "./ovs/ovs-dataplane.ts";

/** Which switch a pool has, and where; a further kind is a further member. */
export interface DataplaneConfig {
  readonly type: "ovs-dpdk";
  /** Path of ovsdb-server's unix socket. */
  readonly database: string;
}

/** Opens the dataplane of a pool: the only place that knows the kinds of switches. */
export function openDataplane(
  config: DataplaneConfig,
  options: { readonly node: string; readonly logger: Logger; readonly onConnected?: () => void },
): Dataplane {
  switch (config.type) {
    case "ovs-dpdk":
      return openOvsDataplane({ databaseSocket: config.database, ...options });
  }
}
