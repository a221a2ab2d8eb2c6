import * as z from "zod";

/** VLAN identifiers as IEEE 802.1Q counts them; 0 means untagged, 4095 is reserved. */
const vlanId = z.number().int().min(0).max(4094);

/** Highest number of a routing table; the one above means "any". */
export const VRF_MAX = 0xffff_fffe;

/** Modes of a port by their names in Open vSwitch (ovs-vswitchd.conf.db(5), Port.vlan_mode). */
export const VLAN_MODES = ["access", "trunk", "native-tagged", "native-untagged", "dot1q-tunnel"] as const;

const vlanSchema = z.strictObject({
  mode: z.enum(VLAN_MODES),
  /** Access VLAN, native VLAN or service VLAN; none in a trunk. */
  tag: vlanId.optional(),
  /** VLANs that a trunk or native port carries; empty carries all. */
  trunks: z.array(vlanId).default([]),
  /** Customer VLANs that a tunnel port carries; empty carries all. */
  customerVlans: z.array(vlanId).default([]),
  /** Outer tag's EtherType of a tunnel port. */
  tunnelEthertype: z.enum(["802.1ad", "802.1q"]).optional(),
});

/** Bits a second, and the bits that may pass at once. */
const rateSchema = z.strictObject({
  rate: z.number().int().positive(),
  burst: z.number().int().nonnegative(),
});

const routedSchema = z.strictObject({
  /** Number of the routing table. */
  vrf: z.number().int().min(0).max(VRF_MAX),
  /** Make a missing table instead of failing; it is never deleted. */
  createVrf: z.boolean().optional(),
  /** What IPAM gave, without prefix lengths. */
  hosts: z.array(z.strictObject({ address: z.string(), gateway: z.string().optional() })),
});

/** Addresses and destinations have a prefix length. */
const dhcpSchema = z.strictObject({
  addresses: z.array(z.strictObject({ address: z.string(), gateway: z.string().optional() })),
  routes: z.array(z.strictObject({ dst: z.string(), gw: z.string().optional() })),
  dns: z.strictObject({
    nameservers: z.array(z.string()),
    domain: z.string().optional(),
    search: z.array(z.string()),
  }),
});

/**
 * What a network asks of its ports beyond bridge, socket and MTU; in words that every switch understands, units
 * named. A key that is absent means the switch's default, and is reset to it when it was set before.
 */
export const portSettingsSchema = z.strictObject({
  vlan: vlanSchema.optional(),
  /** Limit for what the guest sends. */
  fromGuest: rateSchema.optional(),
  /** Limit for what the guest receives; `excess` is the second rate of a two-rate policer. */
  toGuest: rateSchema.extend({ excess: rateSchema.optional() }).optional(),
  /** How often the switch tries again to hand a packet to a guest whose queue is full. */
  transmitRetries: z.number().int().min(0).max(32).optional(),
  /** Cores that poll the guest's receive queues, as pairs of queue and core. */
  receiveQueueCores: z.array(z.tuple([z.number().int().min(0), z.number().int().min(0)])).optional(),
  /** Ports that are isolated cannot talk to each other. */
  isolated: z.boolean().optional(),
  /** Further `external_ids`, for controllers; ours cannot be overwritten. */
  externalIds: z.record(z.string(), z.string()).optional(),
  /** The guest may send only from its own MAC and, where any are given, these addresses (no prefix length). */
  security: z.strictObject({ addresses: z.array(z.string()) }).optional(),
  /** The guest's requests for addresses (DHCP, DHCPv6, router solicitations) are answered with what IPAM gave. */
  dhcp: dhcpSchema.optional(),
  /** Who makes the socket: the guest's side (default), or the switch, for DPDK programs that connect. */
  socketServer: z.enum(["guest", "switch"]).optional(),
  /** Make a missing bridge instead of failing; it is never deleted. */
  createBridge: z.boolean().optional(),
  /** No bridge: the switch routes these addresses to the guest, and answers for their gateways. */
  routed: routedSchema.optional(),
});

export type PortSettings = z.infer<typeof portSettingsSchema>;
export type VlanSettings = z.infer<typeof vlanSchema>;
export type Rate = z.infer<typeof rateSchema>;
export type DhcpSettings = z.infer<typeof dhcpSchema>;
export type RoutedSettings = z.infer<typeof routedSchema>;
