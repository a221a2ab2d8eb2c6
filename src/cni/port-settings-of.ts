import type {
  DhcpSettings,
  PortSettings,
  Rate,
  RoutedSettings,
  VlanSettings,
} from "../config/port-settings.ts";
import { Failure } from "../failure/failure.ts";
import { present } from "../names/present.ts";
import type { NetworkConfig } from "./network-config.ts";
import { bridgeKeys, type portKeys, routedKeys } from "./network-keys.ts";

/** What is asked of a port, by a network's configuration or by a claim's. */
export type PortWishes = Partial<
  Pick<NetworkConfig, keyof typeof portKeys | "ipam" | "dns" | "runtimeConfig" | "args">
>;

/**
 * What a network asks of its port, in terms of the switch.
 * @param args CNI_ARGS; `OvnPort` there, or in `args.cni`, is the pod's choice, used where the network has no `ifaceId`
 * @param defaults where the network does not say: who makes the socket, as when the container was allocated, and whether
 *   a guest with addresses gets them by DHCP
 * @throws Failure `invalid-network-config` for keys that contradict each other
 */
export function portSettingsOf(
  config: PortWishes,
  args: Readonly<Record<string, string>> = {},
  defaults: { readonly socketServer?: PortSettings["socketServer"]; readonly dhcp?: boolean } = {},
): PortSettings {
  return present({
    vlan: vlanOf(config),
    ...limitsOf(config),
    transmitRetries: config.txRetriesMax,
    receiveQueueCores: config.rxqAffinity,
    isolated: config.protected || undefined,
    externalIds: externalIdsOf(config, args),
    security: config.portSecurity === true ? { addresses: [] } : undefined,
    createBridge: config.createBridge || undefined,
    routed: routedOf(config),
    dhcp: dhcpOf(config, defaults.dhcp ?? false),
    socketServer:
      (config.socketServer ?? defaults.socketServer) === "switch" ? ("switch" as const) : undefined,
  });
}

/** The addresses come later, when IPAM has given them. */
function routedOf(config: PortWishes): RoutedSettings | undefined {
  const isRouted = config.mode === "l3";
  const others = isRouted ? bridgeKeys : routedKeys;
  const key = (Object.keys(others) as (keyof typeof others)[]).find((name) => config[name] !== undefined);
  if (key !== undefined) {
    throw contradiction(key, config[key], isRouted ? 'cannot stand beside mode "l3"' : 'needs mode "l3"');
  }
  if (!isRouted) return undefined;
  if (config.ipam?.type === undefined) throw contradiction("mode", config.mode, "needs ipam");
  return present({ vrf: config.vrf ?? 0, createVrf: config.createVrf || undefined, hosts: [] });
}

/** Without addresses nothing can be answered. What IPAM gives comes later. */
function dhcpOf(config: PortWishes, byDefault: boolean): DhcpSettings | undefined {
  const isAddressed = config.ipam?.type !== undefined;
  if (config.dhcp === true && !isAddressed) throw contradiction("dhcp", true, "needs ipam");
  if (!isAddressed || !(config.dhcp ?? byDefault)) return undefined;
  const { nameservers = [], domain, search = [] } = config.dns ?? {};
  return { addresses: [], routes: [], dns: present({ nameservers, domain, search }) };
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

function vlanOf(config: PortWishes): VlanSettings | undefined {
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
  return present({
    mode,
    tag: config.vlan,
    trunks: expandVlans(config.trunk),
    customerVlans: expandVlans(config.customerVlans),
    tunnelEthertype: config.qinqEthertype,
  });
}

/** Every VLAN of a list, once, in order. */
function expandVlans(ranges: NetworkConfig["trunk"]): number[] {
  const vlans = new Set<number>();
  for (const { minID, maxID } of ranges ?? []) {
    for (let vlan = minID; vlan <= maxID; vlan++) vlans.add(vlan);
  }
  return [...vlans].sort((one, other) => one - other);
}

function impliedMode(config: PortWishes, given: readonly VlanKey[]): VlanSettings["mode"] | undefined {
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
function limitsOf(config: PortWishes): Pick<PortSettings, "fromGuest" | "toGuest"> {
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
  return present({ fromGuest, toGuest: toGuest && present({ ...toGuest, excess }) });
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
  config: PortWishes,
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
