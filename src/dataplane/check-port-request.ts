import type { PortSettings, VlanSettings } from "../config/port-settings.ts";
import type { FailureCode } from "../failure/catalogue.ts";
import { Failure } from "../failure/failure.ts";
import { checkUnixPath } from "../names/unix-path.ts";
import type { PortRequest } from "./port.ts";
import { burstBits } from "./rates.ts";

/** What a kind of switch can do. */
export interface PortLimits {
  /** What has these limits, for example `OVS-DPDK`. */
  readonly of: string;
  /** Bytes of a frame without its Ethernet header. */
  readonly mtu: { readonly min: number; readonly max: number };
  /** Bytes of a frame beside its MTU that policers count. */
  readonly headerBytes: number;
  /** Characters of a bridge's name. */
  readonly bridgeNameMax: number;
  /** Settings that it does not have, or that we do not support with it. */
  readonly lacks: readonly (keyof PortSettings)[];
}

/** A setting that contradicts another one or the switch, and how. */
export type SettingProblem = readonly [setting: keyof PortSettings, what: string];

/** Ethernet's default, which switches use without an MTU. */
const DEFAULT_MTU = 1500;

/**
 * Refuses a request that a kind of switch could not fulfil: a name, an owner, a path or an MTU out of bounds, settings
 * that it lacks or that contradict each other.
 * @param further what else contradicts itself for this kind of switch
 * @throws Failure invalid-request, internal, path-too-long, directory-unsafe, port-failed, setting-unsupported,
 *   invalid-network-config
 */
export function checkPortRequest(
  request: PortRequest,
  node: string,
  limits: PortLimits,
  further: Iterable<SettingProblem>,
): void {
  const { name, mtu, owner, settings } = request;
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
  const { min, max } = limits.mtu;
  if (mtu !== undefined && (!Number.isInteger(mtu) || mtu < min || mtu > max)) {
    throw new Failure({
      code: "port-failed",
      what: `MTU ${mtu} is outside ${min} to ${max}, which is what ${limits.of} can do`,
      where: `port ${name}`,
      fix: "change the MTU in the network configuration",
    });
  }
  const lacking = limits.lacks.find((setting) => settings[setting] !== undefined);
  if (lacking !== undefined) throw settingRefused(request, lacking, `${limits.of} does not support it`);
  const [problem] = [...settingProblems(request, limits), ...further];
  if (problem !== undefined) throw settingRefused(request, ...problem, "invalid-network-config");
}

/** What a setting is in a network's configuration (docs/cni.md): its key, and its value as it is written there. */
const WRITTEN: {
  readonly [Key in keyof PortSettings]-?: readonly [
    key: string,
    value?: (setting: NonNullable<PortSettings[Key]>) => unknown,
  ];
} = {
  vlan: ["vlanMode", ({ mode }) => mode],
  fromGuest: ["bandwidth.egressBurst", ({ burst }) => burst],
  toGuest: ["bandwidth.ingressBurst", ({ burst }) => burst],
  transmitRetries: ["txRetriesMax"],
  receiveQueueCores: ["rxqAffinity", (pairs) => pairs.map((pair) => pair.join(":")).join()],
  isolated: ["protected"],
  externalIds: ["externalIds"],
  security: ["portSecurity", () => true],
  dhcp: ["dhcp", () => true],
  socketServer: ["socketServer"],
  createBridge: ["createBridge"],
  routed: ["mode", () => "l3"],
};

/**
 * The failure of a request for one of its settings; by default the switch cannot have it so. It names the network's key
 * and value, as CNI demands (spec 1.1.0, error code 2).
 */
export function settingRefused(
  { name, settings }: PortRequest,
  setting: keyof PortSettings,
  what: string,
  code: FailureCode = "setting-unsupported",
): Failure {
  const [key, written = (value: unknown) => value] = WRITTEN[setting];
  const value = JSON.stringify((written as (value: unknown) => unknown)(settings[setting]));
  const fix = "change the network configuration, or attach the network to another kind of switch";
  return new Failure({ code, what: `${key}: ${value}: ${what}`, where: `port ${name}`, fix });
}

function* settingProblems(
  { settings, mtu = DEFAULT_MTU, bridge }: PortRequest,
  { headerBytes, bridgeNameMax }: PortLimits,
): Generator<SettingProblem> {
  const { vlan, fromGuest, toGuest } = settings;
  for (const what of vlan === undefined ? [] : vlanProblems(vlan)) yield ["vlan", what];
  const frameBits = (mtu + headerBytes) * 8;
  for (const [setting, rate] of [
    ["fromGuest", fromGuest],
    ["toGuest", toGuest],
    ["toGuest", toGuest?.excess],
  ] as const) {
    if (rate === undefined || burstBits(rate) >= frameBits) continue;
    const what = `a burst of ${rate.burst} bits is smaller than one frame of ${frameBits} bits`;
    yield [setting, `${what}, so that no full one would pass`];
  }
  const isName = /^[A-Za-z0-9][A-Za-z0-9_.-]*$/.test(bridge) && bridge.length <= bridgeNameMax;
  if (settings.createBridge === true && !isName) {
    const allowed = `1 to ${bridgeNameMax} letters, digits, '_', '.' or '-' are allowed`;
    yield ["createBridge", `${JSON.stringify(bridge)} cannot name a bridge that is to be made: ${allowed}`];
  }
}

function* vlanProblems({ mode, tag, trunks, customerVlans, tunnelEthertype }: VlanSettings) {
  if (mode !== "trunk" && tag === undefined) yield "vlan is missing";
  if (mode === "trunk" && tag !== undefined) yield `the switch would ignore vlan ${tag}`;
  if (trunks.length > 0 && (mode === "access" || mode === "dot1q-tunnel")) {
    yield `the switch would ignore trunk ${trunks.join(", ")}`;
  }
  if (mode === "dot1q-tunnel") return;
  if (customerVlans.length > 0) yield "only dot1q-tunnel has customerVlans";
  if (tunnelEthertype !== undefined) yield "only dot1q-tunnel has qinqEthertype";
}
