import type { PortSettings, VlanSettings } from "../../../config/port-settings.ts";
import { Failure } from "../../../failure/failure.ts";
import { checkPortRequest } from "../../check-port-request.ts";
import type { PortRequest } from "../../port.ts";
import { burstBits, burstKilobits, rateKilobits } from "../../rates.ts";
import { MARK_KEYS } from "../ports/marks.ts";
import { readIdentity } from "../security/identity.ts";

/** netdev-dpdk takes frames of at most 9728 bytes, of which 26 are Ethernet header, two VLAN tags and checksum. */
const MTU = { min: 68, max: 9702, of: "OVS-DPDK" } as const;
/** Ethernet's default, which the switch uses without an MTU. */
const DEFAULT_MTU = 1500;
/** Policers count frames without their Ethernet header, but with their VLAN tags: two at most. */
const VLAN_TAGS_BYTES = 8;
/** ovs-vswitchd cuts policing rates and bursts at 32 bits. */
const POLICING_MAX_KBIT = 0xffff_ffff;
const RETRIES_MAX = 32;
/** A bridge is a network device too, whose name Linux limits. */
const BRIDGE_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$/;

/**
 * Refuses what the switch would accept and then not do: it ignores an MTU out of range, cuts a socket path at 107
 * bytes and a port name at 15 characters in OpenFlow, and ignores settings that contradict each other.
 * @throws Failure invalid-request, path-too-long, directory-unsafe, port-failed, invalid-network-config,
 *   setting-unsupported
 */
export function checkRequest(request: PortRequest, node: string): void {
  const { name, settings, owner } = request;
  checkPortRequest(request, node, MTU);
  if (settings.routed !== undefined) {
    throw new Failure({
      code: "setting-unsupported",
      what: "Open vSwitch has no routed ports",
      where: `port ${name}, setting routed`,
      fix: "leave mode l3 out, or attach the network to a pool of VPP",
    });
  }
  const [problem] = [...settingProblems(request)];
  if (problem !== undefined) {
    throw new Failure({
      code: "invalid-network-config",
      what: problem[1],
      where: `port ${name}, setting ${problem[0]}`,
      fix: "change the network configuration",
    });
  }
  if (settings.security !== undefined) readIdentity(owner.mac, settings.security.addresses);
}

type Problem = readonly [setting: keyof PortSettings, what: string];

function* settingProblems({ bridge, settings, mtu }: PortRequest): Generator<Problem> {
  const { vlan, fromGuest, toGuest, transmitRetries, receiveQueueCores, externalIds } = settings;
  if (vlan !== undefined) for (const what of vlanProblems(vlan)) yield ["vlan", what];
  const frameBytes = (mtu ?? DEFAULT_MTU) + VLAN_TAGS_BYTES;
  for (const [setting, rate] of [
    ["fromGuest", fromGuest],
    ["toGuest", toGuest],
    ["toGuest", toGuest?.excess],
  ] as const) {
    if (rate !== undefined && burstBits(rate) < frameBytes * 8) {
      yield [
        setting,
        `a burst of ${rate.burst} bits is smaller than one frame of ${frameBytes * 8} bits, so that no full one would pass`,
      ];
    }
  }
  if (
    fromGuest !== undefined &&
    Math.max(rateKilobits(fromGuest), burstKilobits(fromGuest)) > POLICING_MAX_KBIT
  ) {
    yield ["fromGuest", `more than ${POLICING_MAX_KBIT} kbit cannot be set in the switch`];
  }
  if (transmitRetries !== undefined && !isIndex(transmitRetries, RETRIES_MAX)) {
    yield ["transmitRetries", `${transmitRetries} is not a whole number from 0 to ${RETRIES_MAX}`];
  }
  if (transmitRetries !== undefined && settings.socketServer === "switch") {
    yield ["transmitRetries", "a port whose socket the switch creates has no retries to set"];
  }
  if (receiveQueueCores !== undefined) yield* coreProblems(receiveQueueCores);
  for (const [key, value] of Object.entries(externalIds ?? {})) yield* idProblems(key, value);
  if (settings.createBridge === true && !BRIDGE_NAME.test(bridge)) {
    const allowed = "1 to 15 letters, digits, '_', '.' or '-' are allowed";
    yield ["createBridge", `${JSON.stringify(bridge)} cannot name a bridge that is to be made: ${allowed}`];
  }
}

function* vlanProblems({
  mode,
  tag,
  trunks,
  customerVlans,
  tunnelEthertype,
}: VlanSettings): Generator<string> {
  const needsTag = mode !== "trunk";
  if (needsTag && tag === undefined) yield `mode ${mode} needs a tag, the switch would use 0`;
  if (!needsTag && tag !== undefined) yield `mode ${mode} has no tag, the switch would ignore ${tag}`;
  if (trunks.length > 0 && (mode === "access" || mode === "dot1q-tunnel")) {
    yield `mode ${mode} carries one VLAN, the switch would ignore trunks ${trunks.join(", ")}`;
  }
  if (mode === "dot1q-tunnel") return;
  if (customerVlans.length > 0) yield `mode ${mode} has no customer VLANs, only dot1q-tunnel does`;
  if (tunnelEthertype !== undefined) yield `mode ${mode} has no tunnel EtherType, only dot1q-tunnel does`;
}

function* coreProblems(pairs: readonly (readonly [number, number])[]): Generator<Problem> {
  if (pairs.length === 0) yield ["receiveQueueCores", "no queue is named"];
  const queues = new Set<number>();
  for (const [queue, core] of pairs) {
    if (!isIndex(queue, 0xffff) || !isIndex(core, 0xffff)) {
      yield ["receiveQueueCores", `${queue}:${core} is not a queue and a core`];
    }
    if (queues.has(queue)) yield ["receiveQueueCores", `queue ${queue} is named twice`];
    queues.add(queue);
  }
}

function* idProblems(key: string, value: string): Generator<Problem> {
  if (MARK_KEYS.some((ours) => ours === key)) {
    yield ["externalIds", `key ${JSON.stringify(key)} is ours: it says whose port this is`];
  } else if (!/^[\w.:/-]{1,63}$/.test(key)) {
    yield [
      "externalIds",
      `${JSON.stringify(key)} cannot be a key: 1 to 63 letters, digits, '_', '.', ':', '/' or '-' are allowed`,
    ];
  }
  if (!value.isWellFormed() || /\p{Cc}/u.test(value)) {
    yield ["externalIds", `the value of key ${JSON.stringify(key)} holds a control character`];
  }
}

function isIndex(value: number, max: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= max;
}
