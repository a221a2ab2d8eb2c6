import { isIP } from "node:net";
import type { PortSettings, VlanSettings } from "../../config/port-settings.ts";
import type { FailureCode } from "../../failure/catalogue.ts";
import { Failure } from "../../failure/failure.ts";
import { whyNotRoutable } from "../../names/ip-address.ts";
import { checkPortRequest } from "../check-port-request.ts";
import type { PortRequest } from "../port.ts";
import { burstBits } from "../rates.ts";
import { canonical } from "./routed-state.ts";
import { planVlans } from "./wiring.ts";

const MTU_MIN = 68;
/** What VPP makes a vhost-user interface with; it would accept more silently, and cut frames. */
export const MTU_MAX = 9000;
const DEFAULT_MTU = 1500;
/** VPP's policers count the Ethernet header and two VLAN tags too. */
const HEADER_BYTES = 22;
const BRIDGE_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/;

/** Settings that VPP does not have, or that we do not support with it. */
const LACKING = ["transmitRetries", "receiveQueueCores", "externalIds", "security"] as const;

/**
 * Refuses what VPP cannot do, and what it would accept silently and not do.
 * @throws Failure invalid-request, path-too-long, directory-unsafe, port-failed, invalid-network-config,
 *   setting-unsupported
 */
export function checkRequest(request: PortRequest, node: string): void {
  checkPortRequest(request, node, { min: MTU_MIN, max: MTU_MAX, of: "a vhost-user interface of VPP" });
  const { settings } = request;
  for (const setting of LACKING) {
    if (settings[setting] !== undefined) throw refused(request, setting, `VPP has no ${setting}`);
  }
  const [wrong] = problems(request);
  if (wrong !== undefined) throw refused(request, ...wrong, "invalid-network-config");
  if (planVlans(settings.vlan) === undefined) {
    const what = `VPP cannot have a port in mode ${settings.vlan?.mode} with these VLANs`;
    throw refused(request, "vlan", what);
  }
}

type Problem = readonly [setting: keyof PortSettings, what: string];

function* problems({ settings, mtu, bridge }: PortRequest): Generator<Problem> {
  const { vlan, fromGuest, toGuest, createBridge } = settings;
  if (vlan !== undefined) for (const what of vlanProblems(vlan)) yield ["vlan", what];
  const frameBits = ((mtu ?? DEFAULT_MTU) + HEADER_BYTES) * 8;
  for (const [setting, rate] of [
    ["fromGuest", fromGuest],
    ["toGuest", toGuest],
    ["toGuest", toGuest?.excess],
  ] as const) {
    if (rate !== undefined && burstBits(rate) < frameBits) {
      const what = `a burst of ${rate.burst} bits is smaller than one frame of ${frameBits} bits`;
      yield [setting, `${what}, so that no full one would pass`];
    }
  }
  yield* routedProblems(settings);
  if (createBridge === true && !BRIDGE_NAME.test(bridge)) {
    const allowed = "1 to 63 letters, digits, '_', '.' or '-' are allowed";
    yield ["createBridge", `${JSON.stringify(bridge)} cannot name a bridge domain: ${allowed}`];
  }
}

/** What a bridge does for its members has no meaning for a routed port. */
const OF_BRIDGES = ["vlan", "isolated", "createBridge"] as const;

function* routedProblems(settings: PortSettings): Generator<Problem> {
  const { routed } = settings;
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

function* vlanProblems(vlan: VlanSettings): Generator<string> {
  const { mode, tag, trunks, customerVlans, tunnelEthertype } = vlan;
  if (mode === "trunk" && tag !== undefined) yield `mode trunk has no tag, ${tag} has no meaning`;
  if (mode !== "trunk" && tag === undefined) yield `mode ${mode} needs a tag`;
  if (trunks.length > 0 && (mode === "access" || mode === "dot1q-tunnel")) {
    yield `mode ${mode} carries one VLAN, trunks ${trunks.join(", ")} have no meaning`;
  }
  if (trunks.includes(0) || customerVlans.includes(0)) yield "VLAN 0 is no VLAN";
  if (mode === "dot1q-tunnel") return;
  if (customerVlans.length > 0) yield `mode ${mode} has no customer VLANs, only dot1q-tunnel does`;
  if (tunnelEthertype !== undefined) yield `mode ${mode} has no tunnel EtherType, only dot1q-tunnel does`;
}

function refused(
  { name }: PortRequest,
  setting: keyof PortSettings,
  what: string,
  code: FailureCode = "setting-unsupported",
): Failure {
  const fix = "change the network configuration, or attach the network to another switch";
  return new Failure({ code, what, where: `port ${name}, setting ${setting}`, fix });
}
