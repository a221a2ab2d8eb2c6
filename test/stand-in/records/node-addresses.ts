import type { LeakedAddresses, NodeAddresses } from "../../../src/status/addresses-shape.ts";

const NOW = Date.UTC(2026, 0, 15, 9, 30);

/** What an IPAM agent says of a node with one pool, nothing wrong and nothing leaked. */
export function nodeAddresses(changes: Partial<NodeAddresses> = {}): NodeAddresses {
  return {
    ...{
      node: "worker-1",
      version: "0.1.0",
      startedAt: NOW - 60_000,
      at: NOW,
      confirmed: true,
      survivors: 0,
    },
    pools: [
      {
        ...{ name: "blue-v4", space: "default", mode: "NodeBlocks" },
        node: { blocks: 2, used: 20, free: 11, resting: 1 },
        cluster: { total: 1007, used: 380, free: 627, blocks: 30 },
      },
    ],
    blocks: [
      { name: "default.10-40-0-16.28", cidr: "10.40.0.16/28", pool: "blue-v4", state: "bound", used: 16 },
      { name: "default.10-40-0-32.28", cidr: "10.40.0.32/28", pool: "blue-v4", state: "bound", used: 4 },
    ],
    leaks: [],
    resting: [{ address: "10.40.0.40", space: "default", untilAt: NOW + 42_000 }],
    leftOut: { pools: 0, blocks: 0, leaks: 0, resting: 0 },
    ...changes,
  };
}

/** The address of a pod that still exists, and whose network namespace is gone. */
export function leakedAddresses(changes: Partial<LeakedAddresses> = {}): LeakedAddresses {
  return {
    pod: { namespace: "shop", name: "web-0", uid: "u" },
    ...{ network: "fast", interface: "net1", container: "c", netns: "/run/netns/c", why: "pod-there" },
    addresses: [{ address: "10.40.0.17/22", pool: "blue-v4", block: "default.10-40-0-16.28" }],
    goneAt: NOW - 180_000,
    ...changes,
  };
}
