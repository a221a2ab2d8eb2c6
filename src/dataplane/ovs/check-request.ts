import { Failure } from "../../failure/failure.ts";
import { checkPortRequest } from "../check-port-request.ts";
import type { PortRequest } from "../port.ts";
import { checkSettings } from "./check-settings.ts";
import { readIdentity } from "./port-security/addresses.ts";

/** netdev-dpdk takes frames of at most 9728 bytes, of which 26 are Ethernet header, two VLAN tags and checksum. */
const MTU_MIN = 68;
const MTU_MAX = 9702;

/**
 * Refuses what the switch would take without a word and then not do: it ignores an MTU out of range, cuts a socket
 * path at 107 bytes, and cuts a port name at 15 characters in OpenFlow.
 * @throws Failure invalid-request, path-too-long, directory-unsafe, port-failed, invalid-network-config,
 *   setting-unsupported
 */
export function checkRequest(request: PortRequest, node: string): void {
  checkPortRequest(request, node, { min: MTU_MIN, max: MTU_MAX, of: "OVS-DPDK" });
  if (request.settings.routed !== undefined) {
    throw new Failure({
      code: "setting-unsupported",
      what: "Open vSwitch has no routed ports",
      where: `port ${request.name}, setting routed`,
      fix: "leave mode l3 out, or attach the network to a pool of VPP",
    });
  }
  checkSettings(request);
  if (request.settings.security !== undefined)
    readIdentity(request.owner.mac, request.settings.security.addresses);
}
