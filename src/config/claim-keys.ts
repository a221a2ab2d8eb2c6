/** Keys of a port that a claim or a DeviceClass can set: those of a network's configuration (docs/cni.md). */
export const CLAIM_KEYS = [
  ...["bridge", "createBridge", "vlan", "vlanMode", "trunk", "customerVlans", "qinqEthertype", "protected"],
  ...["mode", "vrf", "createVrf", "bandwidth", "excessBandwidth", "txRetriesMax", "rxqAffinity"],
  ...[
    "externalIds",
    "ifaceId",
    "portSecurity",
    "dhcp",
    "dns",
    "socketServer",
    "mtu",
    "mac",
    "name",
    "ipam",
    "allowPersistentIPs",
  ],
] as const;

/** Keys that a claim may set where its pool does not say: those that concern its own guest alone. */
export const CLAIM_DEFAULT_KEYS = ["mtu", "mac", "socketServer"] as const;
