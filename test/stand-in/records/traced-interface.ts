import type { NodeStatus, TracedInterface } from "../../../src/status/shape.ts";

const ROOT = "/var/run/vhostuser/0123456789abcdef";

/** An interface without problems, with a test's changes. */
export function tracedInterface(changes: Partial<TracedInterface> = {}): TracedInterface {
  const rootOwned = { owner: 0, group: 0, mode: 0o755 };
  const traffic = { packets: 0, bytes: 0, dropped: 0 };
  return {
    pod: { namespace: "shop", name: "virt-launcher-web-x7k2p", uid: "0b5c8a52" },
    state: "attached",
    name: "pod37a8eec1ce1",
    network: "fast",
    containerId: "c1",
    mac: "02:00:00:00:00:01",
    mtu: 1500,
    socketServer: "guest",
    device: "sockets-00003",
    pool: "sockets",
    resource: "vhostuser/sockets",
    allocation: "0123456789abcdef",
    podSocket: "/var/run/vhostuser/sockets/pod37a8eec1ce1/vhost.sock",
    bridge: "br0",
    portName: "vhu0123456789ab",
    createdAt: 1_000,
    ownership: { owner: 107, group: 108, mode: 0o2770 },
    places: {
      allocation: { path: ROOT, kind: "directory", ...rootOwned },
      directory: {
        path: `${ROOT}/pod37a8eec1ce1`,
        kind: "directory",
        owner: 107,
        group: 108,
        mode: 0o2770,
      },
      socket: {
        path: `${ROOT}/pod37a8eec1ce1/vhost.sock`,
        kind: "socket",
        owner: 107,
        group: 108,
        mode: 0o775,
      },
    },
    port: {
      name: "vhu0123456789ab",
      bridge: "br0",
      socketPath: `${ROOT}/pod37a8eec1ce1/vhost.sock`,
      link: "up",
      connected: true,
      mtu: 1500,
      queuePairs: 4,
      numaNode: 0,
      traffic: { fromGuest: traffic, toGuest: traffic },
    },
    holder: "held",
    deviceInfo: {
      device: { file: "/devinfo/dp/vhostuser-sockets-sockets-00003-device.json", state: "good" },
      attachment: { file: "/devinfo/cni/shop-fast-c1_pod37a8eec1ce1", state: "good" },
    },
    switch: { ready: true },
    differences: [],
    ...changes,
  };
}

/** A healthy node with one interface, with a test's changes. */
export function nodeStatus(changes: Partial<NodeStatus> = {}): NodeStatus {
  const { holder: _, deviceInfo: __, switch: ___, differences: ____, ...one } = tracedInterface();
  return {
    node: "worker-1",
    version: "0.1.0",
    startedAt: 0,
    at: 181_000,
    pools: [
      {
        name: "sockets",
        resource: "vhostuser/sockets",
        bridge: "br0",
        switch: { kind: "ovs-dpdk", ready: true, version: "Open vSwitch 3.1.0, DPDK 22.11.1" },
        configured: true,
        devices: 128,
        healthy: 128,
        inUse: 1,
        claims: 0,
        registered: true,
      },
    ],
    hugepages: [],
    resources: [{ name: "vhostuser/sockets", registered: true, registrations: 1 }],
    allocations: [
      {
        id: "0123456789abcdef",
        pool: "sockets",
        resource: "vhostuser/sockets",
        devices: ["sockets-00003"],
        pod: one.pod,
        createdAt: 900,
      },
    ],
    interfaces: [one],
    leftovers: { ports: [], directories: [], records: [] },
    counts: { repairs: { stray: 0 }, errors: [], socketsOpened: 0 },
    lastPassAt: 170_000,
    ...changes,
  };
}
