import { describe, expect, it } from "vitest";
import { parseConfig } from "./load.ts";

const MINIMAL = `node: n1
pools:
  sockets:
    resource: vhostuser/sockets
    capacity: 4
    dataplane:
      type: ovs-dpdk
      bridge: br0
`;

describe("configuration file", () => {
  it("fills what is left out", () => {
    const config = parseConfig(MINIMAL, "c.yaml");
    expect(config.root).toBe("/var/run/vhostuser");
    expect(config.pools[0]?.directory).toEqual({ owner: 107, group: 107, mode: 0o2770 });
    expect(config.pools[0]?.dataplane).toMatchObject({ database: "/var/run/openvswitch/db.sock" });
  });

  it("may have switches of both kinds on one node", () => {
    const vpp = "  v: { resource: a.b/v, capacity: 1, dataplane: { type: vpp, bridge: blue } }\n";
    const { pools } = parseConfig(`${MINIMAL}${vpp}`, "c.yaml");
    expect(pools.map(({ dataplane }) => dataplane)).toEqual([
      { type: "ovs-dpdk", database: "/var/run/openvswitch/db.sock", bridge: "br0" },
      { type: "vpp", apiSocket: "/run/vpp/api.sock", bridge: "blue" },
    ]);
  });

  it("may serve every node and leave the name to the environment", () => {
    const shared = MINIMAL.replace("node: n1\n", "");
    expect(parseConfig(shared, "c.yaml", "n7").node).toBe("n7");
    expect(parseConfig(MINIMAL, "c.yaml", "n7").node).toBe("n1");
  });

  it("serves no status page unless asked to, and then on loopback", () => {
    expect(parseConfig(MINIMAL, "c.yaml").statusPage).toEqual({
      enabled: false,
      address: "127.0.0.1",
      port: 9418,
    });
  });

  it("lets claims set what concerns their own guest, unless a pool says otherwise", () => {
    const claims = (text: string) =>
      parseConfig(
        `${MINIMAL}dra: { enabled: true }\n`.replace("capacity: 4", `capacity: 4\n    claims: ${text}`),
        "c.yaml",
      ).pools[0]?.claims;
    expect(claims("{ ports: 4 }")).toEqual({ ports: 4, mayConfigure: ["mtu", "mac", "socketServer"] });
    expect(claims("{ ports: 0, mayConfigure: [vlan] }")).toEqual({ ports: 0, mayConfigure: ["vlan"] });
  });

  it.each([
    [
      "more ports for claims than the pool has",
      `${MINIMAL}dra: { enabled: true }\n`.replace("capacity: 4", "capacity: 4\n    claims: { ports: 5 }"),
      /line 6, key pools\.sockets\.claims\.ports: must not be more than the pool's capacity, 4/,
    ],
    [
      "claims without the driver that serves them",
      MINIMAL.replace("capacity: 4", "capacity: 4\n    claims: { ports: 2 }"),
      /line 6, key pools\.sockets\.claims: needs dra\.enabled: true/,
    ],
    [
      "a pool whose sockets would be another pool's devices",
      `${MINIMAL}dra: { enabled: true }\n`
        .replace("sockets:", "red--1:")
        .replace("capacity: 4", "capacity: 4\n    claims: { ports: 2 }"),
      /line 6, key pools\.red--1\.claims: a pool with claims must not have a name that ends with -- and a number/,
    ],
    [
      "a pool that has the name of the claims' directory",
      MINIMAL.replace("sockets:", "claims:"),
      /line 3, key pools\.claims: is the directory of claims in pods: choose another name/,
    ],
    [
      "a key that ports do not have",
      MINIMAL.replace("capacity: 4", "capacity: 4\n    claims: { ports: 2, mayConfigure: [colour] }"),
      /line 6, key pools\.sockets\.claims\.mayConfigure\.0: /,
    ],
    [
      "a status page on every address",
      `${MINIMAL}statusPage: { enabled: true, address: 0.0.0.0 }\n`,
      /line 9, key statusPage\.address: must be a loopback address.*kubectl port-forward/,
    ],
    [
      "an API server behind a path",
      `${MINIMAL}events: { apiServer: "https://api.example/k8s/clusters/c1" }\n`,
      /line 9, key events\.apiServer: must be https:\/\/host:port and nothing else/,
    ],
    ["an unknown key", `${MINIMAL}colour: red\n`, /line 9, key colour: there is no such key\b(?!, write)/],
    [
      "several mistyped keys",
      `${MINIMAL}reclame: {}\nobserve: { prot: 1, color: 2 }\n`,
      /observe\.prot: there is no such key, write port; line 10, key observe\.color: there .*; line 9, key reclame: .*, write reclaim/,
    ],
    [
      "an unknown nested key",
      MINIMAL.replace("bridge: br0", "bridge: br0\n      bridg: x"),
      /line 9, key pools\.sockets\.dataplane\.bridg: there is no such key, write bridge/,
    ],
    [
      "a switch of an unknown kind",
      MINIMAL.replace("ovs-dpdk", "vswitch"),
      /line 7, key pools\.sockets\.dataplane\.type: must be the kind of a switch: ovs-dpdk or vpp/,
    ],
    [
      "a key that the kind of switch does not have",
      MINIMAL.replace("type: ovs-dpdk", "type: vpp\n      database: /db.sock"),
      /line 8, key pools\.sockets\.dataplane\.database: there is no such key/,
    ],
    [
      "a wrong type",
      MINIMAL.replace("capacity: 4", "capacity: many"),
      /line 5, key pools\.sockets\.capacity/,
    ],
    ["a missing key", MINIMAL.replace("node: n1\n", ""), /key node/],
    ["a relative root", `root: run\n${MINIMAL}`, /line 1, key root: must be an absolute path/],
    [
      "a reserved resource",
      MINIMAL.replace("vhostuser/sockets", "kubernetes.io/x"),
      /line 4, key pools\.sockets\.resource/,
    ],
    [
      "the dataplane's resource",
      MINIMAL.replace("vhostuser/sockets", "vhostuser/dataplane"),
      /is used by dataplaneResource already/,
    ],
    [
      "sockets of the switch that are not below the root",
      `${MINIMAL}    switchSockets: /run/openvswitch\n`,
      /line 9, key pools\.sockets\.switchSockets: must lie below root, \/var\/run\/vhostuser/,
    ],
    [
      "sockets of the switch in the root itself",
      `${MINIMAL}    switchSockets: /var/run/vhostuser\n`,
      /must lie below root/,
    ],
    [
      "sockets of the switch in what could be an allocation",
      `${MINIMAL}    switchSockets: /var/run/vhostuser/openvswitch0dpdk/s\n`,
      /openvswitch0dpdk could be an allocation's directory/,
    ],
    ["a key given twice", `${MINIMAL}node: n2\n`, /c\.yaml:9/],
    [
      "a root that is too long",
      `root: /${"r".repeat(80)}\n${MINIMAL}`,
      /with root and pool sockets a socket's path would have/,
    ],
    [
      "a pool name that is too long for device directories",
      `root: /${"r".repeat(45)}\n${MINIMAL.replace("  sockets:", `  ${"p".repeat(32)}:`)}`,
      /pool p+ a socket's path would have 113 bytes/,
    ],
    [
      "two pools of one name",
      `${MINIMAL}  sockets: { resource: a.b/c, capacity: 1, dataplane: { type: vpp, bridge: b } }\n`,
      /c\.yaml:9/,
    ],
    [
      "two pools of one resource",
      `${MINIMAL}  b: { capacity: 1, dataplane: { type: vpp, bridge: b } }\n`,
      /line 9, key pools\.b\.resource: vhostuser\/sockets is used by pools\.sockets\.resource already/,
    ],
    [
      "a name that a pool cannot have",
      MINIMAL.replace("  sockets:", "  So_ckets:"),
      /line 3, key pools\.So_ckets: a pool's name must be a DNS label/,
    ],
    [
      "a list of pools",
      "node: n1\npools: [{}]\n",
      /line 2, key pools: must be a map of pools by their names/,
    ],
    ["no pool", "node: n1\npools: {}\n", /line 2, key pools: a pool is needed/],
    ["an alias of nothing", MINIMAL.replace("n1", "*n1"), /c\.yaml.*configuration\.md/],
    [
      "aliases of aliases",
      `${["a", "b", "c", "d"].map((key, n, keys) => `${key}: &${key} [${`${n === 0 ? "1" : `*${keys[n - 1]}`},`.repeat(10)}]\n`).join("")}${MINIMAL}`,
      /c\.yaml.*configuration\.md/,
    ],
    ["no YAML at all", "{{{", /c\.yaml:1/],
    ["an empty file", "", /key \(top\)/],
  ])("with %s is an error that says where", (_name, text, message) => {
    expect(() => parseConfig(text, "c.yaml")).toThrow(message);
  });
});
