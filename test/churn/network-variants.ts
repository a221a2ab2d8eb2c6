/** What a network asks of its ports, and what must then be in the switch. */
export interface NetworkVariant {
  readonly name: string;
  /** Keys of the network configuration beside those that all have. */
  readonly keys: Readonly<Record<string, unknown>>;
  /** Port.tag. */
  readonly tag?: number;
  /** other_config:cir of the port's QoS row, in bytes a second. */
  readonly cir?: string;
  /** host-local gives its interfaces addresses. */
  readonly addressed?: boolean;
  /** Flows hold its guests to their addresses. */
  readonly secured?: boolean;
}

/** A network on which no ADD succeeds, though an IPAM plugin has given an address by then. */
export const VAIN_NETWORK: NetworkVariant = {
  name: "vain",
  keys: { bridge: "no-such-bridge", portSecurity: true },
  addressed: true,
};

/** The networks that pods of a churn choose from, and what DeviceClasses ask of the ports of claims. */
export const NETWORK_VARIANTS: readonly [NetworkVariant, ...NetworkVariant[]] = [
  { name: "plain", keys: { mtu: 1500 } },
  { name: "vlan", keys: { vlan: 7 }, tag: 7 },
  {
    name: "limited",
    keys: { vlan: 9, bandwidth: { ingressRate: 80_000_000, ingressBurst: 8_000_000 } },
    tag: 9,
    cir: "10000000",
  },
  { name: "addressed", keys: {}, addressed: true },
  { name: "secured", keys: { portSecurity: true }, addressed: true, secured: true },
];
