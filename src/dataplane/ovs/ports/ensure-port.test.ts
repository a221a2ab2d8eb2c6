import { describe, expect, it } from "vitest";
import type { Operation } from "../../../protocols/ovsdb/transaction.ts";
import type { PortRequest } from "../../port.ts";
import { bridgeProblem } from "../misconfiguration.ts";
import type { BridgeRow, InterfaceRow, PortRow } from "../tables.ts";
import { type PortView, portDifferences, readPortView } from "./check-port.ts";
import { planStep } from "./ensure-port.ts";
import { interfaceMarks, portMarks } from "./marks.ts";

const request: PortRequest = {
  name: "vhu1",
  bridge: "br-a",
  socketPath: "/run/vhost/one.sock",
  mtu: 1500,
  settings: {},
  owner: {
    node: "node-a",
    podNamespace: "shop",
    podName: "web",
    podUid: "",
    containerId: "c1",
    interfaceName: "net1",
    network: "fast",
    mac: "02:00:00:00:00:01",
    allocationId: "0123456789abcdef",
  },
};
const mapOf = (entries: Readonly<Record<string, string>>) => new Map(Object.entries(entries));
const bridge = (name: string, datapath_type = "netdev"): BridgeRow => ({
  _uuid: `uuid-${name}`,
  name,
  datapath_type,
});
const port: PortRow = {
  _uuid: "uuid-port",
  name: "vhu1",
  interfaces: ["uuid-interface"],
  vlan_mode: undefined,
  tag: undefined,
  trunks: [],
  cvlans: [],
  protected: false,
  qos: undefined,
  other_config: new Map(),
  external_ids: mapOf(portMarks(request)),
};
const row: InterfaceRow = {
  _uuid: "uuid-interface",
  name: "vhu1",
  type: "dpdkvhostuserclient",
  options: mapOf({ "vhost-server-path": "/run/vhost/one.sock" }),
  mtu: 0,
  mtu_request: 1500,
  ofport: 3,
  error: undefined,
  link_state: "down",
  status: new Map(),
  ingress_policing_rate: 0,
  ingress_policing_burst: 0,
  other_config: new Map(),
  external_ids: mapOf(interfaceMarks(request)),
};
const holder = bridge("br-a");
const empty: PortView = {
  switch: {
    next_cfg: 4,
    cur_cfg: 4,
    dpdk_initialized: true,
    iface_types: ["dpdkvhostuserclient"],
    other_config: new Map(),
  },
  bridges: [holder, bridge("br-b")],
  port: undefined,
  bridge: undefined,
  interface: undefined,
  rivals: [],
  qos: [],
};
const made: PortView = { ...empty, port, bridge: holder, interface: row };

describe("the next step towards a port", () => {
  it("is to insert a missing port", () => {
    expect(planStep(empty, request).kind).toBe("insert");
  });

  it("is not needed where all is as requested, whatever other programs wrote into external_ids", () => {
    const external_ids = new Map([...row.external_ids, ["iface-id", "ovn-1"]]);
    expect(planStep({ ...made, interface: { ...row, external_ids } }, request).kind).toBe("none");
    expect(portDifferences({ ...made, interface: { ...row, external_ids } }, request)).toEqual([]);
  });

  it.each<[string, PortView]>([
    ["bridge", { ...made, bridge: bridge("br-b") }],
    ["socket", { ...made, interface: { ...row, options: mapOf({ "vhost-server-path": "/other" }) } }],
    ["type", { ...made, interface: { ...row, type: "internal" } }],
  ])("is to delete a port of another %s, and CHECK reports it", (_what, view) => {
    expect(planStep(view, request).kind).toBe("delete");
    expect(portDifferences(view, request)).toHaveLength(1);
  });

  it("is to delete a port with a second interface, or without a readable one", () => {
    expect(planStep({ ...made, port: { ...port, interfaces: ["uuid-interface", "x"] } }, request).kind).toBe(
      "delete",
    );
    expect(planStep({ ...made, interface: undefined }, request).kind).toBe("delete");
  });

  it.each<[string, InterfaceRow]>([
    ["MTU", { ...row, mtu_request: 9000 }],
    ["marks", { ...row, external_ids: new Map() }],
    ["error", { ...row, error: "could not open network device" }],
    ["silent refusal", { ...row, ofport: -1 }],
  ])("is to amend a port with another %s, and CHECK reports it", (_what, changed) => {
    expect(planStep({ ...made, interface: changed }, request).kind).toBe("amend");
    expect(portDifferences({ ...made, interface: changed }, request)).toHaveLength(1);
  });

  it("reports in CHECK that the MTU in force is not the one asked for", () => {
    expect(portDifferences({ ...made, interface: { ...row, mtu: 1400 } }, request)).toEqual([
      "port vhu1 has MTU 1400, asked was 1500",
    ]);
  });

  it("is refused where the port carries no mark of ours, or not all of it", () => {
    for (const external_ids of [new Map(), mapOf({ owner: "kube-vhostuser" }), mapOf({ node: "node-a" })]) {
      expect(() => planStep({ ...made, port: { ...port, external_ids } }, request)).toThrow(
        "another program",
      );
    }
  });

  it("is refused where another port has the socket", () => {
    const view = { ...empty, rivals: [{ ...row, name: "other" }] };
    expect(() => planStep(view, request)).toThrow('served by port "other"');
    expect(portDifferences({ ...made, rivals: view.rivals }, request)).toEqual([
      "port vhu1 shares its socket with port other",
    ]);
  });
});

describe("a read for one port", () => {
  it("asks for no bridge's set of ports, which has all others", async () => {
    const [none, noEntries] = [
      ["set", []],
      ["map", []],
    ];
    const rows: Readonly<Record<string, object>> = {
      Open_vSwitch: { ...empty.switch, iface_types: none, other_config: noEntries },
      Port: {
        ...{ _uuid: ["uuid", "p"], name: "vhu1", interfaces: none, vlan_mode: none, tag: none, trunks: none },
        ...{ cvlans: none, protected: false, qos: none, other_config: noEntries, external_ids: noEntries },
      },
      Bridge: { _uuid: ["uuid", "b"], name: "br-a", datapath_type: "netdev" },
    };
    const asked: Operation[] = [];
    const transact = async (operations: readonly Operation[]) => {
      asked.push(...operations);
      const results = operations.map(({ table }) => ({ rows: [rows[table] ?? []].flat(), count: 0 }));
      return { committed: true, results } as const;
    };
    const client = { transact, close: () => undefined };
    const view = await readPortView({ client }, request, new AbortController().signal);
    expect(view.bridge?.name).toBe("br-a");
    const ofBridges = asked.flatMap((one) =>
      one.op === "select" && one.table === "Bridge" ? one.columns : [],
    );
    expect(new Set(ofBridges)).toEqual(new Set(["_uuid", "name", "datapath_type"]));
  });
});

describe("the problem of a bridge", () => {
  it.each<[string, PortView, string]>([
    ["missing", { ...empty, bridges: [] }, "it has no bridges"],
    ["missing among others", { ...empty, bridges: [bridge("br-x")] }, 'it has "br-x"'],
    ["of the kernel", { ...empty, bridges: [bridge("br-a", "")] }, "datapath_type=netdev"],
    ["without DPDK", { ...empty, switch: { ...empty.switch, dpdk_initialized: false } }, "dpdk-init=true"],
    ["without vhost", { ...empty, switch: { ...empty.switch, iface_types: ["dpdk"] } }, "no interface type"],
  ])("is named for one that is %s", (_what, view, words) => {
    expect(bridgeProblem(view, "br-a")?.message).toContain(words);
  });

  it("is not that a bridge to be created is missing, but anything else", () => {
    expect(bridgeProblem(empty, "br-z", true)).toBeUndefined();
    const withoutDpdk = { ...empty, switch: { ...empty.switch, dpdk_initialized: false } };
    expect(bridgeProblem(withoutDpdk, "br-z", true)?.message).toContain("dpdk-init=true");
  });

  it("is undefined for a usable bridge", () => {
    expect(bridgeProblem(empty, "br-a")).toBeUndefined();
  });
});
