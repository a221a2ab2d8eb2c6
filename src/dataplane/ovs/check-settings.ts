import type { PortSettings, Rate, VlanSettings } from "../../config/port-settings.ts";
import { Failure } from "../../failure/failure.ts";
import type { PortRequest } from "../port.ts";
import { burstBits } from "../rates.ts";
import { MARK_KEYS } from "./marks.ts";
import { policingColumns } from "./rates.ts";

/** Ethernet's default, which the switch takes without an MTU. */
const DEFAULT_MTU = 1500;
/** Policers count frames without their Ethernet header, but with their VLAN tags: two at most. */
const VLAN_TAGS_BYTES = 8;
/** ovs-vswitchd cuts policing rates and bursts at 32 bits. */
const POLICING_MAX_KBIT = 0xffff_ffff;
const RETRIES_MAX = 32;
/** A bridge is a network device too, whose name Linux limits. */
const BRIDGE_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$/;

/**
 * Refuses settings that Open vSwitch would take into its database and then not honour, mostly without a word.
 * @throws Failure invalid-network-config
 */
export function checkSettings(request: PortRequest): void {
  const { name, settings, bridge } = request;
  const wrong = [...problems(request)][0];
  if (wrong !== undefined) {
    throw new Failure({
      code: "invalid-network-config",
      what: wrong[1],
      where: `port ${name}, setting ${wrong[0]}`,
      fix: "change the network configuration",
    });
  }
  if (settings.createBridge === true && !BRIDGE_NAME.test(bridge)) {
    throw new Failure({
      code: "invalid-network-config",
      what: `${JSON.stringify(bridge)} cannot name a bridge that is to be made: 1 to 15 letters, digits, '_', '.' or '-' are allowed`,
      where: `port ${name}, setting createBridge`,
    });
  }
}

type Problem = readonly [setting: keyof PortSettings, what: string];

function* problems({ settings, mtu }: PortRequest): Generator<Problem> {
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
  if (fromGuest !== undefined) yield* policingProblems(fromGuest);
  if (transmitRetries !== undefined && !isIndex(transmitRetries, RETRIES_MAX)) {
    yield ["transmitRetries", `${transmitRetries} is not a whole number from 0 to ${RETRIES_MAX}`];
  }
  if (transmitRetries !== undefined && settings.socketServer === "switch") {
    yield ["transmitRetries", "a port whose socket the switch makes has no retries to set"];
  }
  if (receiveQueueCores !== undefined) yield* coreProblems(receiveQueueCores);
  for (const [key, value] of Object.entries(externalIds ?? {})) yield* idProblems(key, value);
}

function* vlanProblems({
  mode,
  tag,
  trunks,
  customerVlans,
  tunnelEthertype,
}: VlanSettings): Generator<string> {
  const needsTag = mode !== "trunk";
  if (needsTag && tag === undefined) yield `mode ${mode} needs a tag, the switch would take 0`;
  if (!needsTag && tag !== undefined) yield `mode ${mode} has no tag, the switch would ignore ${tag}`;
  if (trunks.length > 0 && (mode === "access" || mode === "dot1q-tunnel")) {
    yield `mode ${mode} carries one VLAN, the switch would ignore trunks ${trunks.join(", ")}`;
  }
  if (mode === "dot1q-tunnel") return;
  if (customerVlans.length > 0) yield `mode ${mode} has no customer VLANs, only dot1q-tunnel does`;
  if (tunnelEthertype !== undefined) yield `mode ${mode} has no tunnel EtherType, only dot1q-tunnel does`;
}

function* policingProblems(rate: Rate): Generator<Problem> {
  const columns = policingColumns(rate);
  if (Math.max(columns.rate, columns.burst) > POLICING_MAX_KBIT) {
    yield ["fromGuest", `more than ${POLICING_MAX_KBIT} kbit cannot be told to the switch`];
  }
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
    yield ["externalIds", `key ${JSON.stringify(key)} is ours: it tells whose port this is`];
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
