import { describe, expect, it } from "vitest";
import { parseConfig } from "./load.ts";

const MINIMAL = `node: n1
pools:
  - name: sockets
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
    const vpp = "  - { name: v, resource: a.b/v, capacity: 1, dataplane: { type: vpp, bridge: blue } }\n";
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

  it.each([
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
    ["an unknown key", `${MINIMAL}colour: red\n`, /line 9, key colour: there is no such key/],
    [
      "an unknown nested key",
      MINIMAL.replace("bridge: br0", "bridge: br0\n      bridg: x"),
      /line 9, key pools\.0\.dataplane\.bridg/,
    ],
    [
      "a switch of an unknown kind",
      MINIMAL.replace("ovs-dpdk", "vswitch"),
      /line 7, key pools\.0\.dataplane\.type: must be the kind of a switch: ovs-dpdk or vpp/,
    ],
    [
      "a key that the kind of switch does not have",
      MINIMAL.replace("type: ovs-dpdk", "type: vpp\n      database: /db.sock"),
      /line 8, key pools\.0\.dataplane\.database: there is no such key/,
    ],
    ["a wrong type", MINIMAL.replace("capacity: 4", "capacity: many"), /line 5, key pools\.0\.capacity/],
    ["a missing key", MINIMAL.replace("node: n1\n", ""), /key node/],
    ["a relative root", `root: run\n${MINIMAL}`, /line 1, key root: must be an absolute path/],
    [
      "a reserved resource",
      MINIMAL.replace("vhostuser/sockets", "kubernetes.io/x"),
      /line 4, key pools\.0\.resource/,
    ],
    [
      "the dataplane's resource",
      MINIMAL.replace("vhostuser/sockets", "vhostuser/dataplane"),
      /is used by dataplaneResource already/,
    ],
    [
      "sockets of the switch that are not below the root",
      `${MINIMAL}    switchSockets: /run/openvswitch\n`,
      /line 9, key pools\.0\.switchSockets: must lie below root, \/var\/run\/vhostuser/,
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
      `root: /${"r".repeat(45)}\n${MINIMAL.replace("name: sockets", `name: ${"p".repeat(32)}`)}`,
      /pool p+ a socket's path would have 113 bytes/,
    ],
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
