import type { Logger } from "../logging/logger.ts";
import type { Dataplane, DataplaneCapabilities } from "./dataplane.ts";
import type { OnGuestRequest } from "./ovs/dhcp/answer-packet.ts";
import { openOvsDataplane } from "./ovs/ovs-dataplane.ts";
import type { PortOwner } from "./port.ts";
import { openVppDataplane } from "./vpp/vpp-dataplane.ts";

/** Which switch a pool has, and where; a further kind is a further member. */
export type DataplaneConfig =
  | {
      readonly type: "ovs-dpdk";
      /** Path of ovsdb-server's unix socket. */
      readonly database: string;
      /** Directory of the bridges' OpenFlow sockets; default that of the database's socket. */
      readonly runDirectory?: string | undefined;
    }
  | {
      readonly type: "vpp";
      /** Path of the binary API's unix socket. */
      readonly apiSocket: string;
    };

/** What a switch of any kind is opened with. */
export interface OpenDataplaneOptions {
  readonly node: string;
  readonly logger: Logger;
  /** Owners for which a port of this name was requested and not yet removed. */
  readonly ownersOf: (port: string) => readonly PortOwner[];
  /** Called after every connection to the switch, with the name of its kind for labels and logs. */
  readonly onConnected?: (kind: string, capabilities: DataplaneCapabilities) => void;
  /** Called for every request for addresses of a guest, where this program answers them. */
  readonly onGuestRequest?: OnGuestRequest;
  /** Called with ports that another client changed or removed, where the switch reports it; `all` where it could be any. */
  readonly onDisturbed?: (ports: readonly string[] | "all") => void;
}

/** Opens the dataplane of a pool. */
export function openDataplane(config: DataplaneConfig, options: OpenDataplaneOptions): Dataplane {
  const onConnected = () => options.onConnected?.(config.type, dataplane.capabilities);
  const dataplane: Dataplane =
    config.type === "vpp"
      ? openVppDataplane({ ...options, apiSocket: config.apiSocket, onConnected })
      : openOvsDataplane({
          ...options,
          databaseSocket: config.database,
          runDirectory: config.runDirectory,
          onConnected,
        });
  return dataplane;
}
