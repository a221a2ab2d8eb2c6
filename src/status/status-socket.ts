import { dirname, join } from "node:path";
import type { DaemonConfig } from "../config/schema.ts";

/** Where the status is served: as configured, else beside the CNI socket, whose directory is root's. */
export function statusSocket({
  statusSocket: path,
  cniSocket,
}: Pick<DaemonConfig, "statusSocket" | "cniSocket">): string {
  return path ?? join(dirname(cniSocket), "status.sock");
}
