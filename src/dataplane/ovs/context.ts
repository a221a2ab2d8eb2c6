import type { Logger } from "../../logging/logger.ts";
import type { OvsdbClient } from "../../protocols/ovsdb/connection.ts";
import type { PortSecurity } from "./port-security/port-security.ts";

/** What every verb works with. */
export interface OvsContext {
  readonly client: OvsdbClient;
  /** Path of ovsdb-server's unix socket. */
  readonly databaseSocket: string;
  /** This node's name, part of the mark on its ports. */
  readonly node: string;
  readonly logger: Logger;
  /** Holds guests to their addresses, by flows. */
  readonly security: PortSecurity;
}
