import { pino } from "pino";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Dataplane } from "../../src/dataplane/dataplane.ts";
import { PortSecurity } from "../../src/dataplane/ovs/security/port-security.ts";
import { output, PORT, packetOut } from "../../src/protocols/openflow/action.ts";
import { bridgeSocket, connectOpenflow } from "../../src/protocols/openflow/connection.ts";
import { failureOf, portRequest, soon } from "../contract/switch-under-test.ts";
import { joinBridges } from "../lab/ovs-dpdk.ts";
import { startPod } from "../lab/pod.ts";
import { startTestpmd, type Testpmd } from "../lab/testpmd.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { arp, frame, icmp6, udp } from "./guest-frames.ts";
import { type OvsRig, startOvsRig } from "./ovs-rig.ts";

const MAC = "02:00:00:00:00:01";
const OTHER = "02:00:00:00:00:99";
const LINK_LOCAL = "fe80::ff:fe00:1";
const V4 = "10.0.0.5";
const V6 = "2001:db8::5";
const own = { from: MAC };
const ALL_NODES = "ff02::1";
const SLL = 1;
const TLL = 2;

const solicit = (
  from: string,
  options: (readonly [number, string])[] = [[SLL, MAC]],
  target = "2001:db8::1",
) => icmp6(own, { from, to: "ff02::1:ff00:1", type: 135, target, options });
const advertise = (target: string, options: (readonly [number, string])[] = [[TLL, MAC]], from = V6) =>
  icmp6(own, { from, to: ALL_NODES, type: 136, target, options });
const echo6 = (from: string) => icmp6(own, { from, to: "2001:db8::1", type: 128 });
const said = (sha: string, spa: string, op = 2) => arp(own, { op, sha, spa, tha: OTHER, tpa: "10.0.0.1" });
const tagged = (inner: Buffer, ...tags: [number, number][]) =>
  frame({ from: MAC, to: "ff:ff:ff:ff:ff:ff", tags }, inner.readUInt16BE(12), inner.subarray(14));

/** What, the frame, whether it passes with addresses, and without. */
const CASES: readonly (readonly [string, Buffer, boolean, boolean])[] = [
  ["IPv4 from its address", udp(own, [V4, 5000], ["10.0.0.1", 53]), true, true],
  ["IPv4 from another address", udp(own, ["10.0.0.6", 5000], ["10.0.0.1", 53]), false, true],
  ["IPv4 from another MAC", udp({ from: OTHER }, [V4, 5000], ["10.0.0.1", 53]), false, false],
  ["IPv6 from its address", echo6(V6), true, true],
  ["IPv6 from its MAC's link-local address", echo6(LINK_LOCAL), true, true],
  ["IPv6 from another link-local address", echo6("fe80::1"), false, true],
  ["IPv6 from another address", echo6("2001:db8::6"), false, true],
  ["an ARP answer for its address", said(MAC, V4), true, true],
  ["an ARP request", said(MAC, V4, 1), true, true],
  ["an ARP probe", said(MAC, "0.0.0.0", 1), true, true],
  ["an ARP answer for no address", said(MAC, "0.0.0.0", 2), false, true],
  ["an ARP answer for another address", said(MAC, "10.0.0.1"), false, true],
  ["an ARP answer with another MAC", said(OTHER, V4), false, false],
  ["ARP of a kind that cannot be read", frame(own, 0x0806, Buffer.alloc(28, 1)), false, false],
  ["the RARP announcement of its MAC", arp(own, { op: 3, sha: MAC, tha: MAC, reverse: true }), true, true],
  ["RARP for another MAC", arp(own, { op: 3, sha: OTHER, tha: OTHER, reverse: true }), false, false],
  ["a RARP answer", arp(own, { op: 4, sha: MAC, tha: MAC, reverse: true }), false, false],
  ["DHCP discovery", udp(own, ["0.0.0.0", 68], ["255.255.255.255", 67]), true, true],
  ["DHCP renewal", udp(own, [V4, 68], ["10.0.0.1", 67]), true, true],
  ["a DHCP server's answer", udp(own, [V4, 67], ["10.0.0.9", 68]), false, true],
  ["anything else from 0.0.0.0", udp(own, ["0.0.0.0", 68], ["10.0.0.1", 53]), false, true],
  ["a DHCPv6 request", udp(own, [LINK_LOCAL, 546], ["ff02::1:2", 547]), true, true],
  ["a DHCPv6 server's answer", udp(own, [LINK_LOCAL, 547], ["fe80::9", 546]), false, true],
  ["a neighbour solicitation", solicit(V6), true, true],
  ["a neighbour solicitation without option", solicit(LINK_LOCAL, []), true, true],
  ["a neighbour solicitation with another MAC", solicit(V6, [[SLL, OTHER]]), false, false],
  [
    "a neighbour solicitation with two MACs",
    solicit(V6, [
      [SLL, OTHER],
      [SLL, MAC],
    ]),
    false,
    false,
  ],
  ["a neighbour solicitation from another address", solicit("2001:db8::6"), false, true],
  ["a check whether its address is taken", solicit("::", [], V6), true, true],
  ["a check whether its link-local address is taken", solicit("::", [], LINK_LOCAL), true, true],
  ["a check whether another address is taken", solicit("::", [], "2001:db8::6"), false, true],
  ["a neighbour advertisement of its address", advertise(V6), true, true],
  ["a neighbour advertisement of its link-local address", advertise(LINK_LOCAL, [], LINK_LOCAL), true, true],
  ["a neighbour advertisement of another address", advertise("2001:db8::1"), false, true],
  ["a neighbour advertisement from another address", advertise(V6, [[TLL, MAC]], "2001:db8::1"), false, true],
  ["the same from its link-local address", advertise("2001:db8::1", [], LINK_LOCAL), false, true],
  ["a neighbour advertisement with another MAC", advertise(V6, [[TLL, OTHER]]), false, false],
  [
    "a neighbour advertisement with two MACs",
    advertise(V6, [
      [TLL, OTHER],
      [TLL, MAC],
    ]),
    false,
    false,
  ],
  ["a router solicitation", icmp6(own, { from: LINK_LOCAL, to: "ff02::2", type: 133 }), true, true],
  ["a router solicitation from ::", icmp6(own, { from: "::", to: "ff02::2", type: 133 }), true, true],
  ["a router advertisement", icmp6(own, { from: LINK_LOCAL, to: ALL_NODES, type: 134 }), false, true],
  ["a redirect", icmp6(own, { from: LINK_LOCAL, to: ALL_NODES, type: 137 }), false, true],
  ["a multicast listener report from ::", icmp6(own, { from: "::", to: "ff02::16", type: 143 }), true, true],
  ["a first version's report", icmp6(own, { from: "::", to: "ff02::16", type: 131 }), true, true],
  ["the end of a listener", icmp6(own, { from: "::", to: "ff02::2", type: 132 }), true, true],
  ["an echo request from ::", icmp6(own, { from: "::", to: ALL_NODES, type: 128 }), false, true],
  ["another EtherType", frame(own, 0x88cc, Buffer.alloc(46)), false, true],
  ["another EtherType from another MAC", frame({ from: OTHER }, 0x88cc, Buffer.alloc(46)), false, false],
  ["a tagged frame of its own", tagged(said(MAC, V4), [0x8100, 7]), true, true],
  ["a tagged ARP answer for another address", tagged(said(MAC, "10.0.0.1"), [0x8100, 7]), false, true],
  ["a tagged ARP answer with another MAC", tagged(said(OTHER, V4), [0x8100, 7]), false, false],
  [
    "a frame with more tags than the switch reads",
    tagged(said(MAC, V4), [0x8100, 7], [0x8100, 8]),
    false,
    false,
  ],
  ["a service tag before a customer tag", tagged(said(MAC, V4), [0x88a8, 7], [0x8100, 8]), false, false],
  ["a customer tag before a service tag", tagged(said(MAC, V4), [0x8100, 7], [0x88a8, 8]), false, false],
  ["a tag of before the standard", tagged(said(MAC, V4), [0x9100, 7]), false, false],
];

describe("port security in OVS-DPDK", () => {
  let rig: OvsRig;
  let dataplane: Dataplane;
  let security: PortSecurity;
  let restored: PromiseWithResolvers<string>;
  const bridge = "br-a";
  const name = "vhu0123456789ab";
  const guest = { name, mac: MAC, addresses: [V4, V6] };
  const anyAddress = { name, mac: MAC, addresses: [] };

  const numberOf = async (port: string) => Number(await rig.ovs.vsctl("get", "Interface", port, "ofport"));
  const flows = async () =>
    (await rig.ovs.ofctl(bridge, "dump-flows", "--no-stats"))
      .split("\n")
      .map((line) => line.trim())
      .filter((line) => line.includes("actions="))
      .sort();
  const ours = async () => (await flows()).filter((line) => line.includes("cookie=0x766875"));
  /** Whether a frame from the port leaves the bridge, by the switch's own parser and flow tables. */
  const passes = async (bytes: Buffer, port?: number) => {
    const trace = await rig.ovs.appctl(
      "ofproto/trace",
      bridge,
      `in_port=${port ?? (await numberOf(name))}`,
      bytes.toString("hex"),
    );
    const actions = /Datapath actions: (.*)/.exec(trace)?.[1];
    if (actions === undefined) throw new Error(trace);
    return actions !== "drop";
  };
  /** How many VLAN tags the switch reads; one is its default. */
  const readTags = (limit: number) =>
    rig.ovs.vsctl("set", "Open_vSwitch", ".", `other_config:vlan-limit=${limit}`);
  const makePort = () => dataplane.ensurePort(portRequest(rig, { name, owner: { mac: MAC } }), soon());
  const open = () => {
    const found = Promise.withResolvers<string>();
    restored = found;
    const write = (line: string) => {
      const { msg, bridge: name } = JSON.parse(line);
      if (msg === "restored port security flows") found.resolve(name);
    };
    return new PortSecurity(rig.ovs.directory, pino({}, { write }));
  };

  beforeAll(async () => {
    rig = await startOvsRig();
    dataplane = rig.open();
    await joinBridges(rig.ovs, "br-a", "br-b");
    await readTags(1);
  });
  beforeEach(async () => {
    security = open();
    await makePort();
  });
  afterEach(async () => {
    await security.remove(bridge, name, soon());
    security.close();
    await rig.ovs.ofctl(bridge, "del-flows");
    await rig.ovs.ofctl(bridge, "add-flow", "priority=0,actions=NORMAL");
  });
  afterAll(async () => {
    await dataplane?.close();
    await rig?.close();
  });

  it.each([
    ["MAC and addresses", [V4, V6], 2],
    ["MAC", [], 3],
  ] as const)(
    "lets pass, of a guest held to its %s, what it may send and nothing else",
    async (_, addresses, column) => {
      await security.ensure(bridge, { ...guest, addresses }, soon());
      const port = await numberOf(name);
      const verdict = async ([what, bytes]: (typeof CASES)[number]) =>
        `${what}: ${await passes(bytes, port)}`;
      expect(await Promise.all(CASES.map(verdict))).toEqual(
        CASES.map((each) => `${each[0]}: ${each[column]}`),
      );
    },
  );

  it("passes everything before it is enabled and after it is disabled", async () => {
    expect(await passes(udp({ from: OTHER }, ["10.0.0.6", 1], ["10.0.0.1", 2]))).toBe(true);
    await security.ensure(bridge, guest, soon());
    expect(await passes(udp({ from: OTHER }, ["10.0.0.6", 1], ["10.0.0.1", 2]))).toBe(false);
    expect(await security.remove(bridge, name, soon())).toBe(true);
    expect(await security.remove(bridge, name, soon())).toBe(false);
    expect(await passes(udp({ from: OTHER }, ["10.0.0.6", 1], ["10.0.0.1", 2]))).toBe(true);
  });

  it("checks the second tag of a QinQ guest where the switch does", async () => {
    await readTags(2);
    try {
      await security.ensure(bridge, guest, soon());
      expect(await passes(tagged(said(MAC, V4), [0x8100, 7], [0x8100, 8]))).toBe(true);
      expect(await passes(tagged(said(MAC, "10.0.0.1"), [0x8100, 7], [0x8100, 8]))).toBe(false);
      expect(await passes(tagged(said(MAC, V4), [0x8100, 7], [0x8100, 8], [0x8100, 9]))).toBe(false);
    } finally {
      await readTags(1);
    }
  });

  it("is in order after it was ensured, and reports what another client changed", async () => {
    expect(await security.ensure(bridge, guest, soon())).toBe(true);
    expect(await security.ensure(bridge, guest, soon())).toBe(false);
    expect(await security.check(bridge, guest, soon())).toEqual([]);
    await rig.ovs
      .ofctl(
        bridge,
        "--strict",
        "mod-flows",
        `priority=65000,reg15=0/0xc0000000,in_port=${await numberOf(name)},actions=NORMAL`,
      )
      .catch(() => undefined);
    await rig.ovs.ofctl(bridge, "del-flows", "arp");
    expect(await security.check(bridge, guest, soon())).toEqual([
      expect.stringMatching(
        /^\d+ of the flows for the security of port vhu0123456789ab are missing or changed$/,
      ),
    ]);
    expect(await security.check(bridge, anyAddress, soon())).toHaveLength(2);
    expect(await security.ensure(bridge, guest, soon())).toBe(true);
    expect(await security.check(bridge, guest, soon())).toEqual([]);
  });

  it("leaves other programs' flows alone, and what they do with allowed traffic", async () => {
    const theirs = `priority=100,in_port=${await numberOf(name)},arp,actions=drop`;
    await rig.ovs.ofctl(bridge, "add-flow", `cookie=0x7,${theirs}`);
    const before = await flows();
    await security.ensure(bridge, guest, soon());
    expect(await passes(said(MAC, V4))).toBe(false);
    expect(await passes(echo6(V6))).toBe(true);
    await security.ensure(bridge, anyAddress, soon());
    await security.remove(bridge, name, soon());
    expect(await flows()).toEqual(before);
  });

  it("executes a frame as if it came from the guest: its own leaves the bridge, a forged one does not", async () => {
    await security.ensure(bridge, guest, soon());
    const connection = await connectOpenflow({ path: bridgeSocket(rig.ovs.directory, bridge) }, soon());
    const inPort = await numberOf(name);
    const arrived = async () => {
      const text = await rig.ovs.ofctl("br-b", "dump-aggregate", `in_port=${await numberOf("br-b-to-br-a")}`);
      return Number(/packet_count=(\d+)/.exec(text)?.[1]);
    };
    await rig.ovs.ofctl(
      "br-b",
      "add-flow",
      `priority=9,in_port=${await numberOf("br-b-to-br-a")},actions=NORMAL`,
    );
    const sent = [said(MAC, V4), said(MAC, "10.0.0.1"), said(OTHER, V4), said(MAC, V4)];
    const actions = [output(PORT.table)];
    await connection.exchange(
      sent.map((bytes) => packetOut({ inPort, actions, frame: bytes })),
      soon(),
    );
    expect(await arrived()).toBe(2);
    // An announcement of ours is no guest's frame: it goes around the flows.
    const ofOurs = packetOut({ inPort, actions: [output(PORT.normal)], frame: said(OTHER, V4) });
    await connection.exchange([ofOurs], soon());
    expect(await arrived()).toBe(3);
    connection.close();
  });

  describe("for a guest that floods its switch", () => {
    let sender: Testpmd;
    const forged = { ...guest, addresses: ["10.0.0.5"] };
    const honest = { ...guest, addresses: ["198.18.0.1"] }; // which testpmd sends from
    /** Frames that went out of the guest's bridge since the switch started. */
    const arrived = async () => {
      const text = await rig.ovs.ofctl("br-b", "dump-ports", String(await numberOf("br-b-to-br-a")));
      return Number(/rx pkts=(\d+)/.exec(text)?.[1]);
    };
    const sent = async () => {
      const text = await rig.ovs.ofctl(bridge, "dump-ports", String(await numberOf(name)));
      return Number(/rx pkts=(\d+)/.exec(text)?.[1]);
    };

    beforeAll(async () => {
      const request = portRequest(rig, { name, owner: { mac: MAC } });
      const pod = await startPod(rig.run, "guest");
      const mounts = [{ hostPath: rig.socketDirectory, containerPath: rig.socketDirectory }];
      await dataplane.ensurePort(request, soon());
      sender = await startTestpmd(pod, { socketPath: request.socketPath, mac: MAC, mounts });
      await sender.waitForSwitch();
    });
    afterAll(() => sender?.stop());

    it("carries its own frames and none with another address", async () => {
      await security.ensure(bridge, honest, soon());
      const before = await arrived();
      await sender.sendBursts(1);
      await waitUntil(async () => (await arrived()) === before + 32, {
        what: "its frames arrive",
      });
      await security.ensure(bridge, forged, soon());
      const seen = await sent();
      await sender.sendBursts(1);
      await waitUntil(async () => (await sent()) >= seen + 32, {
        what: "the switch takes them",
      });
      expect(await arrived()).toBe(before + 32);
    });

    it("is in force again after the switch restarted", async () => {
      await security.ensure(bridge, forged, soon());
      await rig.ovs.restartVswitchd();
      expect(await restored.promise).toBe(bridge);
      expect(await security.check(bridge, forged, soon())).toEqual([]);
    });

    it("passes nothing forbidden during a restart on a bridge whose fail_mode is secure", async () => {
      await rig.ovs.vsctl("set-fail-mode", bridge, "secure");
      await rig.ovs.ofctl(bridge, "del-flows");
      try {
        await security.ensure(bridge, forged, soon());
        expect(await passes(udp(own, ["10.0.0.5", 1], ["10.0.0.1", 2]))).toBe(false); // there is no forwarding
        expect(await security.forward(bridge, [name], soon())).toBe(true);
        expect(await security.forward(bridge, [name], soon())).toBe(false);
        expect(await passes(udp(own, ["10.0.0.5", 1], ["10.0.0.1", 2]))).toBe(true);
        await sender.forward("txonly");
        await rig.ovs.restartVswitchd();
        expect(await restored.promise).toBe(bridge);
        await waitUntil(async () => (await sent()) > 0, { what: "the guest floods again" });
        await sender.pause();
        expect(await arrived()).toBe(0);
        expect(await passes(udp(own, ["10.0.0.5", 1], ["10.0.0.1", 2]))).toBe(true);
      } finally {
        await sender.pause();
        await rig.ovs.vsctl("set-fail-mode", bridge, "standalone");
      }
    });
  });

  it("follows its port to another number", async () => {
    await security.ensure(bridge, guest, soon());
    const old = await numberOf(name);
    await rig.ovs.vsctl("set", "Interface", name, `ofport_request=${old + 77}`);
    expect(await restored.promise).toBe(bridge);
    expect(await numberOf(name)).toBe(old + 77);
    expect(await security.check(bridge, guest, soon())).toEqual([]);
    expect(new Set((await ours()).map((line) => /in_port=(\w+)/.exec(line)?.[1])).size).toBe(1);
    expect(await passes(said(MAC, "10.0.0.1"))).toBe(false);
  });

  it("does not restrict a port of another program that gets the number of a port that is gone", async () => {
    await security.ensure(bridge, guest, soon());
    const number = await numberOf(name);
    await rig.ovs.vsctl("del-port", name);
    expect(await ours()).not.toEqual([]); // in force at once should the port come back under its number
    await rig.ovs.vsctl(
      ...["add-port", bridge, "other", "--", "set", "Interface", "other"],
      ...["type=internal", `ofport_request=${number}`],
    );
    expect(await restored.promise).toBe(bridge);
    expect([await numberOf("other"), await ours()]).toEqual([number, []]);
    await rig.ovs.vsctl("del-port", "other");
  });

  it("removes what another port left behind on its number, and flows whose port is gone", async () => {
    await security.ensure(bridge, guest, soon());
    const number = await numberOf(name);
    security.close();
    await rig.ovs.vsctl("del-port", name);
    await rig.ovs.vsctl(
      "add-port",
      bridge,
      "other",
      "--",
      "set",
      "Interface",
      "other",
      "type=internal",
      `ofport_request=${number}`,
    );
    security = open();
    const left = (await ours()).length;
    expect(left).toBeGreaterThan(10);
    expect(await security.removeStrays(bridge, { secured: [name], answered: [], free: [] }, soon())).toBe(0);
    await security.ensure(bridge, { name: "other", mac: OTHER, addresses: [] }, soon());
    expect((await ours()).filter((line) => line.includes(`dl_src=${MAC}`))).toEqual([]);
    await rig.ovs.vsctl("del-port", "other");
    await security.remove(bridge, "other", soon());
    await makePort();
    await security.ensure(bridge, guest, soon());
    await rig.ovs.vsctl("del-port", name);
    security.close();
    security = open();
    expect(await security.removeStrays(bridge, { secured: [], answered: [], free: [] }, soon())).toBe(left);
    expect(await ours()).toEqual([]);
  });

  it("reports a bridge that lacks the port, is missing, or does not speak our OpenFlow", async () => {
    const absent = await failureOf(security.ensure(bridge, { ...guest, name: "vhu-absent" }, soon()));
    expect([absent.code, absent.what]).toEqual([
      "port-failed",
      'the bridge has no OpenFlow port "vhu-absent"',
    ]);
    const noBridge = await failureOf(security.ensure("br-none", guest, soon()));
    expect(noBridge.code).toBe("dataplane-unavailable");
    expect(await security.remove("br-none", name, soon())).toBe(false);
    await rig.ovs.vsctl("set", "Bridge", "br-b", "protocols=OpenFlow10,OpenFlow15");
    const tooOld = await failureOf(security.ensure("br-b", guest, soon()));
    expect([tooOld.code, tooOld.what]).toEqual([
      "dataplane-misconfigured",
      "the bridge speaks OpenFlow 1.0, 1.5 only; 1.3 or 1.4 is needed",
    ]);
    await rig.ovs.vsctl("clear", "Bridge", "br-b", "protocols");
  });

  it("works the same on a bridge limited to OpenFlow 1.3", async () => {
    await rig.ovs.vsctl("set", "Bridge", bridge, "protocols=OpenFlow10,OpenFlow13");
    try {
      await security.ensure(bridge, guest, soon());
      expect(await security.check(bridge, guest, soon())).toEqual([]);
      expect(await passes(said(MAC, "10.0.0.1"))).toBe(false);
      expect(await passes(said(MAC, V4))).toBe(true);
    } finally {
      await rig.ovs.vsctl("clear", "Bridge", bridge, "protocols");
    }
  });
});
