import type { PortSettings, Rate, RoutedSettings, VlanSettings } from "../config/port-settings.ts";
import { Failure } from "../failure/failure.ts";
import type { NetworkConfig } from "./network-config.ts";

/**
 * What a network asks of its port, in terms of the switch.
 * @param args CNI_ARGS; `OvnPort` there, or in `args.cni`, is the pod's choice, used where the network has no `ifaceId`
 * @throws Failure `invalid-network-config` for keys that contradict each other
 */
export function portSettingsOf(
  config: NetworkConfig,
  args: Readonly<Record<string, string>> = {},
): PortSettings {
  const vlan = vlanOf(config);
  const externalIds = externalIdsOf(config, args);
  const routed = routedOf(config);
  const { txRetriesMax, rxqAffinity, createBridge } = config;
  return {
    ...(vlan === undefined ? {} : { vlan }),
    ...limitsOf(config),
    ...(txRetriesMax === undefined ? {} : { transmitRetries: txRetriesMax }),
    ...(rxqAffinity === undefined ? {} : { receiveQueueCores: rxqAffinity }),
    ...(config.protected === true ? { isolated: true } : {}),
    ...(externalIds === undefined ? {} : { externalIds }),
    ...(config.portSecurity === true ? { security: { addresses: [] } } : {}),
    ...(createBridge === true ? { createBridge } : {}),
    ...(routed === undefined ? {} : { routed }),
  };
}

/** Adds the addresses that IPAM gave, which port security lets through or which are routed to the port. */
export function withAddresses(
  settings: PortSettings,
  ips: readonly { readonly address: string; readonly gateway?: string | undefined }[],
): PortSettings {
  const { security, routed } = settings;
  const hosts = ips.map(({ address, gateway }) => ({
    address: address.replace(/\/.*$/, ""),
    ...(gateway === undefined ? {} : { gateway }),
  }));
  return {
    ...settings,
    ...(security === undefined ? {} : { security: { addresses: hosts.map(({ address }) => address) } }),
    ...(routed === undefined ? {} : { routed: { ...routed, hosts } }),
  };
}

/** Keys that are about bridges, and those that are about routed ports. */
const BRIDGE_KEYS = [
  "bridge",
  "createBridge",
  "vlan",
  "vlanMode",
  "trunk",
  "customerVlans",
  "qinqEthertype",
  "protected",
] as const;
const ROUTED_KEYS = ["vrf", "createVrf"] as const;

/** The addresses come later, when IPAM has given them. */
function routedOf(config: NetworkConfig): RoutedSettings | undefined {
  if (config.mode !== "l3") {
    const [key] = ROUTED_KEYS.filter((name) => config[name] !== undefined);
    if (key !== undefined) throw contradiction(key, config[key], 'needs mode "l3"');
    return undefined;
  }
  const [key] = BRIDGE_KEYS.filter((name) => config[name] !== undefined);
  if (key !== undefined) throw contradiction(key, config[key], 'cannot stand beside mode "l3"');
  if (config.ipam?.type === undefined) throw contradiction("mode", config.mode, "needs ipam");
  const { vrf = 0, createVrf } = config;
  return { vrf, ...(createVrf === true ? { createVrf } : {}), hosts: [] };
}

/** Which keys a mode needs beside itself, and which it can have; it must have no others. */
const KEYS_OF_MODE = {
  access: { needs: ["vlan"], may: [] },
  trunk: { needs: [], may: ["trunk"] },
  "native-tagged": { needs: ["vlan"], may: ["trunk"] },
  "native-untagged": { needs: ["vlan"], may: ["trunk"] },
  "dot1q-tunnel": { needs: ["vlan"], may: ["customerVlans", "qinqEthertype"] },
} as const;

const VLAN_KEYS = ["vlan", "trunk", "customerVlans", "qinqEthertype"] as const;
type VlanKey = (typeof VLAN_KEYS)[number];

function vlanOf(config: NetworkConfig): VlanSettings | undefined {
  const given = VLAN_KEYS.filter((key) => config[key] !== undefined);
  const mode = config.vlanMode ?? impliedMode(config, given);
  if (mode === undefined) return undefined;
  const { needs, may }: { readonly needs: readonly VlanKey[]; readonly may: readonly VlanKey[] } =
    KEYS_OF_MODE[mode];
  for (const key of needs) {
    if (config[key] === undefined) throw contradiction("vlanMode", mode, `needs ${key}`);
  }
  for (const key of given) {
    if (!needs.includes(key) && !may.includes(key)) {
      throw contradiction(key, config[key], `cannot stand beside vlanMode ${JSON.stringify(mode)}`);
    }
  }
  return {
    mode,
    ...(config.vlan === undefined ? {} : { tag: config.vlan }),
    trunks: expandVlans(config.trunk),
    customerVlans: expandVlans(config.customerVlans),
    ...(config.qinqEthertype === undefined ? {} : { tunnelEthertype: config.qinqEthertype }),
  };
}

/** Every VLAN of a list, once, in order. */
function expandVlans(ranges: NetworkConfig["trunk"]): number[] {
  const vlans = new Set<number>();
  for (const { minID, maxID } of ranges ?? []) {
    for (let vlan = minID; vlan <= maxID; vlan++) vlans.add(vlan);
  }
  return [...vlans].sort((one, other) => one - other);
}

function impliedMode(config: NetworkConfig, given: readonly VlanKey[]): VlanSettings["mode"] | undefined {
  for (const key of ["customerVlans", "qinqEthertype"] as const) {
    if (given.includes(key)) throw contradiction(key, config[key], 'needs vlanMode "dot1q-tunnel"');
  }
  if (given.length === 2) {
    throw contradiction(
      "vlan",
      config.vlan,
      'stands beside trunk, so vlanMode must be "native-tagged" or "native-untagged"',
    );
  }
  if (given.includes("vlan")) return "access";
  return given.includes("trunk") ? "trunk" : undefined;
}

/** CNI's ingress is what goes into the pod. A runtime's bandwidth replaces the network's. */
function limitsOf(config: NetworkConfig): Pick<PortSettings, "fromGuest" | "toGuest"> {
  const ofRuntime = config.runtimeConfig?.bandwidth;
  const where = ofRuntime === undefined ? "bandwidth" : "runtimeConfig.bandwidth";
  const bandwidth = ofRuntime ?? config.bandwidth ?? {};
  const toGuest = rateOf(bandwidth, "ingress", where);
  const fromGuest = rateOf(bandwidth, "egress", where);
  const { excessBandwidth: excess } = config;
  if (excess !== undefined && toGuest === undefined) {
    throw contradiction(
      "excessBandwidth",
      excess,
      "comes on top of bandwidth.ingressRate, which is not given",
    );
  }
  return {
    ...(fromGuest === undefined ? {} : { fromGuest }),
    ...(toGuest === undefined
      ? {}
      : { toGuest: { ...toGuest, ...(excess === undefined ? {} : { excess }) } }),
  };
}

/** Rate and burst come together, as the reference plugin for bandwidth demands; a runtime sends 0 for none. */
function rateOf(
  bandwidth: NonNullable<NetworkConfig["bandwidth"]>,
  direction: "ingress" | "egress",
  where: string,
): Rate | undefined {
  const { [`${direction}Rate` as const]: rate = 0, [`${direction}Burst` as const]: burst = 0 } = bandwidth;
  if (rate === 0 && burst === 0) return undefined;
  if (rate === 0) throw contradiction(`${where}.${direction}Burst`, burst, `needs ${direction}Rate`);
  if (burst === 0) throw contradiction(`${where}.${direction}Rate`, rate, `needs ${direction}Burst`);
  return { rate, burst };
}

function externalIdsOf(
  config: NetworkConfig,
  args: Readonly<Record<string, string>>,
): Record<string, string> | undefined {
  // The network comes first: a pod's owner could otherwise impersonate any other pod in OVN.
  const ifaceId = config.ifaceId || args["OvnPort"] || config.args?.cni?.OvnPort;
  if (ifaceId === undefined || ifaceId === "") return config.externalIds;
  const beside = config.externalIds?.["iface-id"];
  if (beside !== undefined && beside !== ifaceId) {
    throw contradiction(
      "externalIds.iface-id",
      beside,
      `stands beside ${JSON.stringify(ifaceId)} of ifaceId or OvnPort`,
    );
  }
  return { ...config.externalIds, "iface-id": ifaceId };
}

function contradiction(key: string, value: unknown, why: string): Failure {
  return new Failure({
    code: "invalid-network-config",
    what: `${key}: ${JSON.stringify(value)} ${why}`,
    where: "network configuration",
    fix: "correct the config of the NetworkAttachmentDefinition; docs/cni.md says which keys can be combined",
  });
}
