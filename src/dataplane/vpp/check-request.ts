import { isIP } from "node:net";
import { whyNotRoutable } from "../../addresses/host-address.ts";
import type { PortSettings } from "../../config/port-settings.ts";
import {
  checkPortRequest,
  type PortLimits,
  type SettingProblem,
  settingRefused,
} from "../check-port-request.ts";
import type { PortRequest } from "../port.ts";
import { canonical } from "./routed-state.ts";
import { planVlans } from "./wiring.ts";

/** What VPP makes a vhost-user interface with; it would accept more silently, and cut frames. */
export const MTU_MAX = 9000;

const LIMITS: PortLimits = {
  of: "VPP",
  mtu: { min: 68, max: MTU_MAX },
  // VPP's policers count the Ethernet header and two VLAN tags too.
  headerBytes: 22,
  bridgeNameMax: 63,
  lacks: ["transmitRetries", "receiveQueueCores", "externalIds", "security", "dhcp"],
};

/**
 * Refuses what VPP cannot do, and what it would accept silently and not do.
 * @throws Failure those of {@link checkPortRequest}
 */
export function checkRequest(request: PortRequest, node: string): void {
  const { settings } = request;
  checkPortRequest(request, node, LIMITS, problems(settings));
  if (planVlans(settings.vlan) === undefined) {
    throw settingRefused(request, "vlan", "VPP does not support it with this trunk");
  }
}

/** What a bridge does for its members has no meaning for a routed port. */
const OF_BRIDGES = ["vlan", "isolated", "createBridge"] as const;

function* problems(settings: PortSettings): Generator<SettingProblem> {
  const { vlan, routed } = settings;
  if (vlan !== undefined && [...vlan.trunks, ...vlan.customerVlans].includes(0)) {
    yield ["vlan", "0 is not a VLAN"];
  }
  if (routed === undefined) return;
  for (const setting of OF_BRIDGES) {
    if (settings[setting] !== undefined) yield [setting, "a routed port is in no bridge"];
  }
  if (routed.hosts.length === 0) yield ["routed", "a routed port needs an address from IPAM"];
  const addresses = new Set(routed.hosts.map(({ address }) => canonical(address)));
  for (const { address, gateway } of routed.hosts) {
    const why = whyNotRoutable(address);
    const whyGateway = gateway && whyNotRoutable(gateway);
    if (why !== undefined) {
      yield ["routed", `the guest's address ${address} ${why}; VPP cannot route to it`];
    } else if (gateway === undefined) {
      yield ["routed", `IPAM gave no gateway for ${address}, which VPP is to answer for`];
    } else if (isIP(gateway) !== isIP(address)) {
      yield ["routed", `gateway ${gateway} of ${address} is of the other address family`];
    } else if (addresses.has(canonical(gateway))) {
      yield ["routed", `gateway ${gateway} is the guest's own address`];
    } else if (whyGateway !== undefined) {
      yield ["routed", `gateway ${gateway} ${whyGateway}; VPP shares it among the ports of a network`];
    }
  }
}
