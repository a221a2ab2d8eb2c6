import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type PortSettings, portSettingsSchema } from "../../src/config/port-settings.ts";
import type { Dataplane } from "../../src/dataplane/dataplane.ts";
import { failureOf, portRequest, soon } from "../contract/switch-under-test.ts";
import { type OvsRig, startOvsRig } from "./ovs-rig.ts";

const vlan = (settings: object): PortSettings => portSettingsSchema.parse({ vlan: settings });
const LIMIT: PortSettings = { toGuest: { rate: 80_000_001, burst: 800_007 } };

describe("settings of a port in OVS-DPDK", () => {
  let rig: OvsRig;
  let dataplane: Dataplane;
  const name = "vhu0123456789ab";
  const column = (table: string, record: string, key: string) => rig.ovs.vsctl("get", table, record, key);
  const portColumns = (...keys: string[]) => Promise.all(keys.map((key) => column("Port", name, key)));
  const interfaceColumns = (...keys: string[]) =>
    Promise.all(keys.map((key) => column("Interface", name, key)));
  const ensure = (settings: PortSettings, changes: { name?: string; bridge?: string } = {}) =>
    dataplane.ensurePort(portRequest(rig, { ...changes, settings }), soon());
  const check = (settings: PortSettings) => dataplane.checkPort(portRequest(rig, { settings }), soon());
  const qos = async () => {
    const uuid = await column("Port", name, "qos");
    return { type: await column("QoS", uuid, "type"), config: await column("QoS", uuid, "other_config") };
  };

  beforeAll(async () => {
    rig = await startOvsRig();
    dataplane = rig.open();
  });
  afterEach(() => rig.reset());
  afterAll(async () => {
    await dataplane?.close();
    await rig?.close();
  });

  it.each<[PortSettings, string[]]>([
    [vlan({ mode: "access", tag: 5 }), ["access", "5", "[]", "[]", "{}"]],
    [vlan({ mode: "trunk", trunks: [7, 3, 7] }), ["trunk", "[]", "[3, 7]", "[]", "{}"]],
    [vlan({ mode: "native-tagged", tag: 0 }), ["native-tagged", "0", "[]", "[]", "{}"]],
    [vlan({ mode: "native-untagged", tag: 5, trunks: [6] }), ["native-untagged", "5", "[6]", "[]", "{}"]],
    [
      vlan({ mode: "dot1q-tunnel", tag: 5, customerVlans: [8, 9], tunnelEthertype: "802.1q" }),
      ["dot1q-tunnel", "5", "[]", "[8, 9]", '{qinq-ethtype="802.1q"}'],
    ],
  ])("are columns of its Port row for %j, and empty again without it", async (settings, columns) => {
    const keys = ["vlan_mode", "tag", "trunks", "cvlans", "other_config"];
    await ensure(settings);
    expect(await portColumns(...keys)).toEqual(columns);
    await ensure({});
    expect(await portColumns(...keys)).toEqual(["[]", "[]", "[]", "[]", "{}"]);
    expect(await column("Port", name, "external_ids")).not.toContain("port-settings");
  });

  it("are columns and keys of its Interface row, rates in kbit and rounded up", async () => {
    const settings: PortSettings = {
      fromGuest: { rate: 80_000_001, burst: 800_007 },
      transmitRetries: 0,
      receiveQueueCores: [[0, 1], [1, 1]], // biome-ignore format: a pair each
      isolated: true,
      externalIds: { "iface-id": "5d4e", "vm-id": "" },
    };
    const keys = [
      "ingress_policing_rate",
      "ingress_policing_burst",
      "options:tx-retries-max",
      "other_config:pmd-rxq-affinity",
      "external_ids:iface-id",
      "external_ids:vm-id",
    ];
    await ensure(settings);
    expect(await interfaceColumns(...keys)).toEqual(["80001", "801", '"0"', '"0:1,1:1"', '"5d4e"', '""']);
    expect(await portColumns("protected", "external_ids:port-settings")).toEqual([
      "true",
      '"fromGuest id:iface-id id:vm-id isolated receiveQueueCores transmitRetries"',
    ]);
    await ensure({});
    expect(await interfaceColumns("ingress_policing_rate", "ingress_policing_burst")).toEqual(["0", "0"]);
    expect(await column("Interface", name, "other_config")).toBe("{}");
    expect(await column("Interface", name, "options")).not.toContain("tx-retries-max");
    expect(await column("Interface", name, "external_ids")).not.toMatch(/iface-id|vm-id/);
    expect(await portColumns("protected")).toEqual(["false"]);
  });

  it("are a QoS row in bytes and rounded down, the same row when the limit changes", async () => {
    await ensure(LIMIT);
    const row = await column("Port", name, "qos");
    expect(await qos()).toEqual({ type: "egress-policer", config: '{cbs="100000", cir="10000000"}' });
    expect(await column("QoS", row, "external_ids")).toBe(
      `{node=node-a, owner=kube-vhostuser, port=${name}}`,
    );
    await ensure({ toGuest: { rate: 800, burst: 0, excess: { rate: 1600, burst: 800_000 } } });
    expect(await column("Port", name, "qos")).toBe(row);
    expect(await qos()).toEqual({
      type: "trtcm-policer",
      config: '{cbs="1000000", cir="100", ebs="100000", eir="200"}',
    });
    expect(await rig.ovs.vsctl("list", "Queue")).toBe("");
  });

  it("leave what others set where they are not asked for, and are enforced where they are", async () => {
    await ensure({});
    await rig.ovs.vsctl(
      ...["set", "Port", name, "tag=9", "other_config:priority-tags=always", "--"],
      ...["set", "Interface", name, "ingress_policing_rate=7", "options:n_rxq_desc=1024"],
    );
    expect(await check({})).toEqual([]);
    await ensure({ transmitRetries: 3, ...vlan({ mode: "trunk" }) });
    expect(await portColumns("tag", "other_config")).toEqual(["[]", "{priority-tags=always}"]);
    await ensure({});
    expect(await column("Interface", name, "ingress_policing_rate")).toBe("7");
    expect(await column("Interface", name, "options:n_rxq_desc")).toBe('"1024"');
  });

  it("are reported by CHECK with the present and the requested value, and are repaired", async () => {
    const settings: PortSettings = {
      ...LIMIT,
      ...vlan({ mode: "access", tag: 5 }),
      transmitRetries: 3,
      isolated: true,
      externalIds: { "iface-id": "a" },
    };
    await ensure(settings);
    await rig.ovs.vsctl(
      ...["set", "Port", name, "tag=9", "trunks=[3,4]", "protected=false", "--"],
      ...["clear", "Port", name, "qos", "--"],
      ...["remove", "Interface", name, "options", "tx-retries-max", "--"],
      ...["set", "Interface", name, "external_ids:iface-id=b"],
    );
    expect(await check(settings)).toEqual([
      `port ${name} has VLAN tag 9, asked was 5`,
      `port ${name} has trunk VLANs 3,4, asked was none`,
      `port ${name} has isolation false, asked was true`,
      `port ${name} has transmit retries none, asked was 3`,
      `port ${name} has external_ids:iface-id b, asked was a`,
      `port ${name} has limit towards the guest none, asked was egress-policer cbs=100000 cir=10000000`,
    ]);
    await ensure(settings);
    expect(await check(settings)).toEqual([]);
    expect(await rig.belongings()).toHaveLength(1);
  });

  it("are not written again while they are in order", async () => {
    const settings = { ...LIMIT, ...vlan({ mode: "trunk", trunks: [9, 2] }), isolated: false };
    await ensure(settings);
    const before = await column("Open_vSwitch", ".", "next_cfg");
    await ensure(settings);
    expect(await column("Open_vSwitch", ".", "next_cfg")).toBe(before);
  });

  it("leave another program's limit on the port alone until one is asked for, and never delete it", async () => {
    await ensure({});
    await rig.ovs.vsctl(
      ...["set", "Port", name, "qos=@q", "--"],
      ...["--id=@q", "create", "QoS", "type=egress-policer", "other_config:cir=1", "other_config:cbs=9000"],
    );
    const theirs = await column("Port", name, "qos");
    expect(await check({})).toEqual([]);
    await ensure({ isolated: true });
    expect(await column("Port", name, "qos")).toBe(theirs);
    expect(await check(LIMIT)).toContain(
      `port ${name} has limit towards the guest a QoS row of another program, asked was egress-policer cbs=100000 cir=10000000`,
    );
    await ensure(LIMIT);
    expect(await qos()).toMatchObject({ config: '{cbs="100000", cir="10000000"}' });
    await dataplane.removePort(name, soon());
    expect(await dataplane.removeStrays(soon())).toBe(0);
    expect(await rig.belongings()).toEqual([theirs]);
  });

  it("leave a QoS row to another port that uses it, and delete it when no port does", async () => {
    await ensure(LIMIT);
    const row = await column("Port", name, "qos");
    await rig.ovs.vsctl("set", "Port", "br-b", `qos=${row}`);
    expect(await dataplane.removePort(name, soon())).toBe(true);
    expect(await rig.portNames()).toEqual([]);
    expect(await dataplane.removeStrays(soon())).toBe(0);
    expect(await rig.belongings()).toEqual([row]);
    await rig.ovs.vsctl("clear", "Port", "br-b", "qos");
    expect(await dataplane.removeStrays(soon())).toBe(1);
    expect(await rig.belongings()).toEqual([]);
  });

  it("remove their QoS row with a port that the switch could not make", async () => {
    const failure = await failureOf(ensure(LIMIT, { name: "ovs-netdev" }));
    expect(failure.code).toBe("port-failed");
    expect(await rig.belongings()).toEqual([]);
  });

  it("go with the port to another bridge, with the same QoS row", async () => {
    const settings = { ...LIMIT, ...vlan({ mode: "access", tag: 5 }) };
    await ensure(settings);
    await ensure(settings, { bridge: "br-b" });
    expect(await rig.belongings()).toHaveLength(1);
    expect(await qos()).toMatchObject({ type: "egress-policer" });
    expect(await portColumns("tag")).toEqual(["5"]);
  });

  it("that need another setting of the whole switch say which, and do not change it", async () => {
    const tunnel = vlan({ mode: "dot1q-tunnel", tag: 5 });
    await ensure(tunnel, { name: "vhu-earlier" });
    await rig.ovs.vsctl("remove", "Open_vSwitch", ".", "other_config", "vlan-limit");
    try {
      const earlier = portRequest(rig, { name: "vhu-earlier", settings: tunnel });
      expect(await dataplane.checkPort(earlier, soon())).toEqual([
        expect.stringContaining("parses one VLAN tag only"),
      ]);
      const failure = await failureOf(ensure(tunnel));
      expect(failure.code).toBe("dataplane-misconfigured");
      expect(failure.fix).toBe("ovs-vsctl set Open_vSwitch . other_config:vlan-limit=2");
      expect(await rig.portNames()).toEqual(["vhu-earlier"]);
    } finally {
      await rig.ovs.vsctl("set", "Open_vSwitch", ".", "other_config:vlan-limit=2");
    }
    await rig.ovs.vsctl("remove", "Open_vSwitch", ".", "other_config", "pmd-rxq-isolate");
    try {
      const all = await failureOf(ensure({ receiveQueueCores: [[0, 1]] }));
      expect(all).toMatchObject({
        code: "dataplane-misconfigured",
        fix: expect.stringContaining("fewer cores"),
      });
    } finally {
      await rig.ovs.vsctl("set", "Open_vSwitch", ".", "other_config:pmd-rxq-isolate=false");
    }
    const unpolled = await failureOf(ensure({ receiveQueueCores: [[0, 0]] }));
    expect(unpolled).toMatchObject({
      code: "dataplane-misconfigured",
      where: expect.stringContaining("pmd-cpu-mask"),
    });
  });

  it("are repaired, except one that the switch is no longer configured for, which is reported", async () => {
    const asked: PortSettings = { ...vlan({ mode: "access", tag: 5 }), receiveQueueCores: [[0, 1]] };
    await ensure(asked);
    await rig.ovs.vsctl("set", "Open_vSwitch", ".", "other_config:pmd-cpu-mask=0x1");
    try {
      await rig.ovs.vsctl("set", "Port", name, "tag=6");
      expect((await failureOf(ensure(asked))).what).toContain("asks for core 1 to poll its queue 0");
      expect((await failureOf(ensure(asked))).code).toBe("dataplane-misconfigured");
      expect([await portColumns("tag"), await interfaceColumns("other_config")]).toEqual([["5"], ["{}"]]);
    } finally {
      await rig.ovs.vsctl("set", "Open_vSwitch", ".", "other_config:pmd-cpu-mask=0x2");
    }
    await ensure(asked);
    expect(await check(asked)).toEqual([]);
  });

  it("make a bridge of the userspace datapath, but do not accept one of the kernel's", async () => {
    await ensure({ createBridge: true }, { bridge: "br-new" });
    expect(await column("Bridge", "br-new", "datapath_type")).toBe("netdev");
    expect(await column("Bridge", "br-new", "external_ids")).toBe("{owner=kube-vhostuser}");
    await rig.ovs.vsctl("--no-wait", "add-br", "br-kernel");
    const failure = await failureOf(ensure({ createBridge: true }, { bridge: "br-kernel" }));
    expect(failure.code).toBe("dataplane-misconfigured");
    await rig.makeForeignPort("taken", "/nowhere");
    expect((await failureOf(ensure({ createBridge: true }, { bridge: "taken" }))).code).toBe("port-conflict");
  });

  describe("take effect in the switch", () => {
    /** What happens to a frame that comes in at `from`, with these further fields, towards `name`'s port. */
    const trace = async (from: string, fields = "") => {
      const port = await column("Interface", from, "ofport");
      const text = await rig.ovs.appctl(
        ...["ofproto/trace", "br-a", `in_port=${port},dl_dst=ff:ff:ff:ff:ff:ff${fields && `,${fields}`}`],
      );
      return /Datapath actions: (.*)/.exec(text)?.[1] ?? text;
    };
    const peer = "vhu-peer";
    /** Whether a frame has a VLAN tag when these actions put it out at a port. */
    const isTaggedAt = async (port: string, actions: string) => {
      const number = new RegExp(`\\b${port} \\d+/(\\d+):`).exec(await rig.ovs.appctl("dpif/show"))?.[1];
      const before = new RegExp(`^(.*?)(?<=^|,)${number}(?=,|$)`).exec(actions)?.[1];
      if (before === undefined) throw new Error(`${actions} do not put it out at ${port}, ${number}`);
      return before.lastIndexOf("push_vlan") > before.lastIndexOf("pop_vlan");
    };

    it.each<[string, PortSettings, string, RegExp]>([
      ["an access port's tag", vlan({ mode: "access", tag: 5 }), "", /push_vlan\(vid=5,pcp=0\)/],
      ["to drop a tagged frame of an access port", vlan({ mode: "access", tag: 5 }), "dl_vlan=6", /^drop$/],
      [
        "to drop a VLAN that a trunk does not carry",
        vlan({ mode: "trunk", trunks: [6] }),
        "dl_vlan=7",
        /^drop$/,
      ],
      ["to take an untagged frame for the native VLAN", vlan({ mode: "native-untagged", tag: 5, trunks: [6] }), "", /push_vlan\(vid=5,pcp=0\)/], // biome-ignore format: a row
      ["to take a tunnel's frame into the service VLAN", vlan({ mode: "dot1q-tunnel", tag: 5 }), "dl_vlan=8", /push_vlan\(tpid=0x88a8,vid=5,pcp=0\)/], // biome-ignore format: a row
      ["a tunnel's other EtherType", vlan({ mode: "dot1q-tunnel", tag: 5, tunnelEthertype: "802.1q" }), "dl_vlan=8", /push_vlan\(vid=5,pcp=0\)/], // biome-ignore format: a row
      ["to drop a customer VLAN that a tunnel does not carry", vlan({ mode: "dot1q-tunnel", tag: 5, customerVlans: [9] }), "dl_vlan=8", /^drop$/], // biome-ignore format: a row
    ])("%s", async (_, settings, fields, actions) => {
      await ensure(vlan({ mode: "trunk" }), { name: peer });
      await ensure(settings);
      expect(await trace(name, fields)).toMatch(actions);
    });

    it("and send a native VLAN tagged or untagged", async () => {
      await ensure(vlan({ mode: "access", tag: 5 }), { name: peer });
      await ensure(vlan({ mode: "native-tagged", tag: 5 }));
      expect(await isTaggedAt(name, await trace(peer))).toBe(true);
      await ensure(vlan({ mode: "native-untagged", tag: 5 }));
      expect(await isTaggedAt(name, await trace(peer))).toBe(false);
    });
  });
});
