import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { PortSettings } from "../../src/config/port-settings.ts";
import type { Dataplane } from "../../src/dataplane/dataplane.ts";
import type { PortRequest } from "../../src/dataplane/port.ts";
import { failureOf, portRequest, soon } from "../contract/switch-under-test.ts";
import { joinBridges } from "../lab/ovs-dpdk.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { arp } from "./guest-frames.ts";
import { type OvsRig, startOvsRig } from "./ovs-rig.ts";

// What the flows let pass is seen in ovs-port-security.test.ts; here, that they come and go with their port.
describe("a port of OVS-DPDK with port security", () => {
  const name = "vhu0123456789ab";
  const other = "vhu0123456789cd";
  const mac = "02:00:00:00:00:01";
  const security: PortSettings = { security: { addresses: ["10.0.0.5"] } };
  let rig: OvsRig;
  let dataplane: Dataplane;

  const request = (settings = security, changes: Partial<Omit<PortRequest, "owner">> = {}) =>
    portRequest(rig, { name, settings, owner: { mac }, ...changes });
  const flows = async (bridge = "br-a", port?: string) => {
    const number = port === undefined ? "" : await rig.ovs.vsctl("get", "Interface", port, "ofport");
    const text = await rig.ovs.ofctl(bridge, "dump-flows", "--no-stats", "--no-names");
    const ours = text.split("\n").filter((line) => line.includes("cookie=0x766875"));
    return port === undefined ? ours : ours.filter((line) => line.includes(`in_port=${number},`));
  };
  /** Whether a frame that says it is `spa`'s leaves the bridge. */
  const passes = async (spa: string, port = name) => {
    const number = await rig.ovs.vsctl("get", "Interface", port, "ofport");
    const bytes = arp({ from: mac }, { op: 1, sha: mac, spa, tpa: "10.0.0.1" });
    const trace = await rig.ovs.appctl(
      ...["ofproto/trace", "br-a", `in_port=${number}`, bytes.toString("hex")],
    );
    return !trace.includes("Datapath actions: drop");
  };
  /** Another run of the daemon. */
  const reopen = async () => {
    await dataplane.close();
    dataplane = rig.open();
  };

  beforeAll(async () => {
    rig = await startOvsRig();
    await joinBridges(rig.ovs, "br-a", "br-b");
  });
  beforeEach(() => {
    dataplane = rig.open();
  });
  afterEach(async () => {
    for (const port of [name, other]) await dataplane.removePort(port, soon());
    await dataplane.removeStrays(soon());
    await dataplane.close();
    const left = [...(await flows("br-a")), ...(await flows("br-b"))];
    await rig.ovs.vsctl("clear", "Bridge", "br-a", "external_ids", "protocols", "fail_mode");
    for (const bridge of ["br-a", "br-b"]) {
      await rig.ovs.ofctl(bridge, "del-flows");
      await rig.ovs.ofctl(bridge, "add-flow", "priority=0,actions=NORMAL");
    }
    expect(left.filter((line) => !line.includes("priority=1 "))).toEqual([]);
  });
  afterAll(() => rig?.close());

  it("is secured before ensurePort answers, as requested, and leaves no flow behind", async () => {
    await dataplane.ensurePort(request(), soon());
    expect([await passes("10.0.0.5"), await passes("10.0.0.6")]).toEqual([true, false]);
    expect(await dataplane.checkPort(request(), soon())).toEqual([]);
    expect(await dataplane.removePort(name, soon())).toBe(true);
    expect(await flows()).toEqual([]);
  });

  it("has its missing flows reported by checkPort and put back by ensurePort", async () => {
    await dataplane.ensurePort(request(), soon());
    await rig.ovs.ofctl("br-a", "del-flows", "arp");
    expect(await dataplane.checkPort(request(), soon())).toEqual([
      expect.stringMatching(/^\d+ of the flows for the security of port vhu0123456789ab are missing/),
    ]);
    await dataplane.ensurePort(request(), soon());
    expect(await dataplane.checkPort(request(), soon())).toEqual([]);
  });

  it("follows the request: other addresses, no security, security again", async () => {
    await dataplane.ensurePort(request(), soon());
    const moved: PortSettings = { security: { addresses: ["10.0.0.6"] } };
    await dataplane.ensurePort(request(moved), soon());
    expect([await passes("10.0.0.5"), await passes("10.0.0.6")]).toEqual([false, true]);
    await dataplane.ensurePort(request({}), soon());
    expect([await flows(), await dataplane.checkPort(request({}), soon())]).toEqual([[], []]);
    await dataplane.ensurePort(request(), soon());
    expect(await passes("10.0.0.6")).toBe(false);
  });

  it("leaves no flow that an earlier daemon had installed", async () => {
    await dataplane.ensurePort(request(), soon());
    await reopen();
    await dataplane.removePort(name, soon());
    expect(await flows()).toEqual([]);
  });

  it("leaves no flow on the bridge that it leaves", async () => {
    await dataplane.ensurePort(request(), soon());
    await dataplane.ensurePort(request(security, { bridge: "br-b" }), soon());
    expect([await flows("br-a"), (await flows("br-b")).length > 10]).toEqual([[], true]);
  });

  it("is secured again without a call after the switch restarted", async () => {
    await dataplane.ensurePort(request(), soon());
    const before = (await flows()).length;
    await rig.ovs.restartVswitchd();
    await waitUntil(async () => (await flows()).length === before, {
      what: "the flows are back",
    });
    expect(await dataplane.checkPort(request(), soon())).toEqual([]);
  });

  it("is cleared of flows when another client removed it, and when it was killed half-way to no security", async () => {
    await dataplane.ensurePort(request(), soon());
    await reopen();
    await rig.removeBehindOurBack(name);
    expect((await flows()).length).toBeGreaterThan(10);
    expect(await dataplane.removeStrays(soon())).toBeGreaterThan(10);
    expect(await flows()).toEqual([]);
    await dataplane.ensurePort(request(), soon());
    await reopen();
    // What the transaction of an ensurePort without security writes.
    await rig.ovs.vsctl("remove", "Port", name, "external_ids", "port-settings");
    expect(await dataplane.removeStrays(soon())).toBeGreaterThan(10);
    expect(await passes("10.0.0.6")).toBe(true);
  });

  it("keeps its flows when strays are removed, also those of another daemon of this switch", async () => {
    await dataplane.ensurePort(request(), soon());
    const before = (await flows()).length;
    expect(await dataplane.removeStrays(soon())).toBe(0);
    await reopen();
    expect(await dataplane.removeStrays(soon())).toBe(0);
    const neighbour = rig.open("node-b");
    expect(await neighbour.removeStrays(soon())).toBe(0);
    await neighbour.close();
    expect(await flows()).toHaveLength(before);
  });

  it("is refused, and nothing made, by a bridge that does not speak our OpenFlow, without effect on others", async () => {
    await rig.ovs.vsctl("set", "Bridge", "br-a", "protocols=OpenFlow10");
    const tooOld = { code: "dataplane-misconfigured", where: "Bridge.protocols" };
    expect(await failureOf(dataplane.ensurePort(request(), soon()))).toMatchObject(tooOld);
    expect(await dataplane.listPorts(soon())).toEqual([]);
    const plain = request({}, { name: other });
    await dataplane.ensurePort(plain, soon());
    expect(await dataplane.checkPort(plain, soon())).toEqual([]);
    expect(await dataplane.removeStrays(soon())).toBe(0);
    // To a guest that runs its port is left.
    expect(await failureOf(dataplane.ensurePort(request(security, { name: other }), soon()))).toMatchObject(
      tooOld,
    );
    expect(await dataplane.listPorts(soon())).toHaveLength(1);
    expect(await dataplane.removePort(other, soon())).toBe(true);
  });

  it("is refused before anything is made where its addresses are no host's", async () => {
    const wrong: PortSettings = { security: { addresses: ["224.0.0.1"] } };
    expect((await failureOf(dataplane.ensurePort(request(wrong), soon()))).code).toBe("invalid-request");
    expect(await rig.portNames()).not.toContain(name);
  });

  it("is made together with its bridge", async () => {
    const asked = request({ ...security, createBridge: true }, { bridge: "br-new" });
    const again = request({ ...security, createBridge: true }, { name: other, bridge: "br-new" });
    await Promise.all([dataplane.ensurePort(asked, soon()), dataplane.ensurePort(again, soon())]);
    expect([await dataplane.checkPort(asked, soon()), await dataplane.checkPort(again, soon())]).toEqual([
      [],
      [],
    ]);
    for (const port of [name, other]) await dataplane.removePort(port, soon());
    expect(await flows("br-new")).toEqual([]);
    await rig.ovs.vsctl("del-br", "br-new");
  });

  describe("on a bridge that is held back until its ports are ready", () => {
    beforeEach(() =>
      rig.ovs.vsctl(
        ...["set", "Bridge", "br-a", "fail_mode=secure", "external_ids:kube-vhostuser-forward=true"],
      ),
    );

    it("sends nothing until then, and afterwards what is allowed, also across restarts of the switch", async () => {
      await rig.ovs.ofctl("br-a", "del-flows");
      await dataplane.ensurePort(request(), soon());
      expect(await passes("10.0.0.5")).toBe(false);
      await dataplane.enableForwarding?.(soon());
      expect([await passes("10.0.0.5"), await passes("10.0.0.6")]).toEqual([true, false]);
      await rig.ovs.restartVswitchd();
      await waitUntil(() => passes("10.0.0.5"), { what: "the bridge forwards again" });
      expect(await passes("10.0.0.6")).toBe(false);
    });

    it("is closed when it could not be settled, and opens to what it may send once it is", async () => {
      await dataplane.ensurePort(request(), soon());
      await dataplane.ensurePort(request({}, { name: other }), soon());
      await dataplane.close();
      await rig.ovs.restartVswitchd();
      dataplane = rig.open();
      await dataplane.enableForwarding?.(soon());
      expect([await passes("10.0.0.5"), await passes("10.0.0.5", other)]).toEqual([false, true]);
      expect(await dataplane.removeStrays(soon())).toBe(0);
      await rig.ovs.restartVswitchd();
      await waitUntil(() => passes("10.0.0.5", other), {
        what: "the bridge forwards again",
      });
      expect(await passes("10.0.0.5")).toBe(false);
      await dataplane.ensurePort(request(), soon());
      expect([await passes("10.0.0.5"), await passes("10.0.0.6")]).toEqual([true, false]);
    });

    it("keeps the flows that an earlier daemon installed", async () => {
      await dataplane.ensurePort(request(), soon());
      await reopen();
      await dataplane.enableForwarding?.(soon());
      expect([await passes("10.0.0.5"), await passes("10.0.0.6")]).toEqual([true, false]);
    });

    it("does not have its forwarding put back once the mark is gone", async () => {
      await dataplane.ensurePort(request(), soon());
      await dataplane.enableForwarding?.(soon());
      await rig.ovs.vsctl("remove", "Bridge", "br-a", "external_ids", "kube-vhostuser-forward");
      await dataplane.enableForwarding?.(soon());
      await rig.ovs.ofctl("br-a", "del-flows");
      await dataplane.ensurePort(request(), soon());
      await dataplane.enableForwarding?.(soon());
      expect(await passes("10.0.0.5")).toBe(false);
    });
  });
});
