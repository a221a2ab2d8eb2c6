import { Failure } from "../../failure/failure.ts";
import { checkUnixPath } from "../../names/unix-path.ts";
import type { PortRequest } from "../port.ts";
import { checkSettings } from "./check-settings.ts";
import { readIdentity } from "./port-security/addresses.ts";

/** netdev-dpdk takes frames of at most 9728 bytes, of which 26 are Ethernet header, two VLAN tags and checksum. */
const MTU_MIN = 68;
const MTU_MAX = 9702;

/**
 * Refuses what the switch would take without a word and then not do: it ignores an MTU out of range, cuts a socket
 * path at 107 bytes, and cuts a port name at 15 characters in OpenFlow.
 * @throws Failure invalid-request, path-too-long, directory-unsafe, port-failed, invalid-network-config
 */
export function checkRequest(request: PortRequest, node: string): void {
  const { name, mtu, owner } = request;
  if (!/^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$/.test(name)) {
    throw new Failure({
      code: "invalid-request",
      what: `${JSON.stringify(name)} cannot name a port: 1 to 15 letters, digits, '_', '.' or '-' are allowed`,
    });
  }
  if (owner.node !== node) {
    throw new Failure({
      code: "internal",
      what: `port ${name} is asked for node ${JSON.stringify(owner.node)}, this is ${JSON.stringify(node)}`,
    });
  }
  checkUnixPath(request.socketPath, `port ${name}`);
  if (mtu !== undefined && (!Number.isInteger(mtu) || mtu < MTU_MIN || mtu > MTU_MAX)) {
    throw new Failure({
      code: "port-failed",
      what: `MTU ${mtu} is outside ${MTU_MIN} to ${MTU_MAX}, which is what OVS-DPDK can do`,
      where: `port ${name}`,
      fix: "change the MTU in the network configuration",
    });
  }
  checkSettings(request);
  if (request.settings.security !== undefined) readIdentity(owner.mac, request.settings.security.addresses);
}
