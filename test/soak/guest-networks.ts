import type { NetworkVariant } from "../churn/network-variants.ts";
import { SOCKETS } from "../cluster/cluster-node.ts";
import type { SelectedNetwork } from "../stand-in/multus/network.ts";

/** One VLAN for all, so that they reach each other. Each has more to restore than the one before. */
const VARIANTS: readonly [NetworkVariant, ...NetworkVariant[]] = [
  { name: "guest", keys: { vlan: 7 }, tag: 7 },
  {
    name: "guest-limited",
    keys: { vlan: 7, bandwidth: { ingressRate: 800_000_000, ingressBurst: 8_000_000 } },
    tag: 7,
    cir: "100000000",
  },
  { name: "guest-secured", keys: { vlan: 7, portSecurity: true }, tag: 7, secured: true },
];

/** The network of a guest, by its number. */
export function guestVariant(number: number): NetworkVariant {
  return VARIANTS[number % VARIANTS.length] ?? VARIANTS[0];
}

/** As Multus selects it. Not a network of the churn: GC of one of those, with its pods alone, would end the guests. */
export function guestNetwork({ name, keys }: NetworkVariant): SelectedNetwork {
  return {
    namespace: "tests",
    name: `vhostuser-${name}`,
    resourceName: SOCKETS,
    config: {
      cniVersion: "1.1.0",
      name,
      type: "kube-vhostuser",
      ...keys,
      capabilities: { deviceID: true, CNIDeviceInfoFile: true, mac: true },
    },
  };
}
