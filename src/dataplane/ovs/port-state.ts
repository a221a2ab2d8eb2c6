import type { PortState } from "../port.ts";
import { readOwner, SOCKET_KEY } from "./marks.ts";
import { type InterfaceRow, type PortRow, SERVER_PATH, VHOST_SERVER } from "./rows.ts";

/** What the rows of a port say about it; without its Interface row there is little to say. */
export function readPortState(
  bridge: string,
  port: PortRow,
  interfaceRow: InterfaceRow | undefined,
): PortState {
  const mtu = interfaceRow === undefined ? undefined : mtuOf(interfaceRow);
  const error = interfaceRow === undefined ? undefined : errorOf(interfaceRow);
  return {
    name: port.name,
    bridge,
    socketPath: interfaceRow?.options.get(SERVER_PATH) ?? interfaceRow?.external_ids.get(SOCKET_KEY) ?? "",
    owner: readOwner(port.external_ids, interfaceRow?.external_ids ?? new Map()),
    link: interfaceRow?.link_state === "up" ? "up" : "down",
    connected: interfaceRow?.status.get("status") === "connected",
    ...(mtu === undefined ? {} : { mtu }),
    ...(interfaceRow?.type === VHOST_SERVER ? { socketFile: port.name } : {}),
    ...(error === undefined ? {} : { error }),
  };
}

/** What is in force; the switch says 0 until a guest is connected, and then what was asked for is all there is. */
export function mtuOf(row: InterfaceRow): number | undefined {
  return row.mtu !== undefined && row.mtu > 0 ? row.mtu : row.mtu_request;
}

/**
 * The switch's own words on a port it could not make. It refuses some names (`ovs-netdev`, `gre_sys`) without a
 * word in the database: ofport is -1 then, and only its log tells more.
 */
export function errorOf(row: InterfaceRow): string | undefined {
  if (row.error !== undefined && row.error !== "") return row.error;
  return row.ofport !== undefined && row.ofport < 0
    ? "the switch gave no reason (ofport is -1; see the log of ovs-vswitchd)"
    : undefined;
}
