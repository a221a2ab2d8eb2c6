import { checkPortRequest, type PortLimits, type SettingProblem } from "../../check-port-request.ts";
import type { PortRequest } from "../../port.ts";
import { burstKilobits, rateKilobits } from "../../rates.ts";
import { MARK_KEYS } from "../ports/marks.ts";
import { readIdentity } from "../security/identity.ts";

const LIMITS: PortLimits = {
  of: "OVS-DPDK",
  // netdev-dpdk takes frames of at most 9728 bytes, of which 26 are Ethernet header, two VLAN tags and checksum.
  mtu: { min: 68, max: 9702 },
  // Policers count frames without their Ethernet header, but with their VLAN tags: two at most.
  headerBytes: 8,
  // A bridge is a network device too, whose name Linux limits.
  bridgeNameMax: 15,
  lacks: ["routed"],
};
/** ovs-vswitchd cuts policing rates and bursts at 32 bits. */
const POLICING_MAX_KBIT = 0xffff_ffff;
const RETRIES_MAX = 32;

/**
 * Refuses what the switch would accept and then not do: it ignores an MTU out of range, cuts a socket path at 107
 * bytes and a port name at 15 characters in OpenFlow, and ignores settings that contradict each other.
 * @throws Failure those of {@link checkPortRequest}
 */
export function checkRequest(request: PortRequest, node: string): void {
  const { settings, owner } = request;
  checkPortRequest(request, node, LIMITS, settingProblems(request));
  for (const addresses of [settings.security?.addresses, settings.dhcp?.addresses.map(hostOf)]) {
    if (addresses !== undefined) readIdentity(owner.mac, addresses);
  }
}

function* settingProblems({ settings }: PortRequest): Generator<SettingProblem> {
  const { fromGuest, transmitRetries: retries, receiveQueueCores, externalIds = {} } = settings;
  const kilobits = fromGuest === undefined ? [] : [rateKilobits(fromGuest), burstKilobits(fromGuest)];
  if (Math.max(...kilobits) > POLICING_MAX_KBIT) {
    yield ["fromGuest", `more than ${POLICING_MAX_KBIT} kbit cannot be set in the switch`];
  }
  if (retries !== undefined && !isIndex(retries, RETRIES_MAX)) {
    yield ["transmitRetries", `${retries} is not a whole number from 0 to ${RETRIES_MAX}`];
  }
  if (retries !== undefined && settings.socketServer === "switch") {
    yield ["transmitRetries", "a port whose socket the switch creates has no retries to set"];
  }
  const queues = new Set<number>();
  if (receiveQueueCores?.length === 0) yield ["receiveQueueCores", "no queue is named"];
  for (const [queue, core] of receiveQueueCores ?? []) {
    if (!isIndex(queue, 0xffff) || !isIndex(core, 0xffff)) {
      yield ["receiveQueueCores", `${queue}:${core} is not a queue and a core`];
    }
    if (queues.has(queue)) yield ["receiveQueueCores", `queue ${queue} is named twice`];
    queues.add(queue);
  }
  for (const [key, value] of Object.entries(externalIds)) {
    const quoted = `key ${JSON.stringify(key)}`;
    if (MARK_KEYS.includes(key)) yield ["externalIds", `${quoted} is ours: it says whose port this is`];
    if (!/^[\w.:/-]{1,63}$/.test(key)) {
      const allowed = "1 to 63 letters, digits, '_', '.', ':', '/' or '-' are allowed";
      yield ["externalIds", `${quoted} cannot be a key: ${allowed}`];
    }
    if (!value.isWellFormed() || /\p{Cc}/u.test(value)) {
      yield ["externalIds", `the value of ${quoted} holds a control character`];
    }
  }
}

function hostOf({ address }: { readonly address: string }): string {
  return address.replace(/\/.*$/, "");
}

function isIndex(value: number, max: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= max;
}
