import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { addressOf, hostPrefix } from "../../src/dataplane/vpp/routed-state.ts";
import { connectVpp, type VppConnection } from "../../src/protocols/vpp-api/connection.ts";
import { frame } from "../../src/protocols/vpp-api/frame.ts";
import {
  ANY_INDEX,
  addBridgeDomain,
  addPolicer,
  controlPing,
  createVhostUser,
  createVlan,
  deleteSubInterface,
  deleteVhostUser,
  dumpBridgeDomains,
  dumpInterfaces,
  dumpVhostUser,
  filterVlanTag,
  interfaceEvent,
  policeInput,
  rewriteVlanTag,
  setBridge,
  setInterfaceFlags,
  setMtu,
  tagInterface,
  wantInterfaceEvents,
} from "../../src/protocols/vpp-api/messages.ts";
import {
  addAddress,
  addNeighbor,
  addRoute,
  addTable,
  createLoopback,
  deleteLoopback,
  dumpNeighbors,
  dumpUnnumbered,
  enableIp6,
  findRoute,
  getLinkLocal,
  setTable,
  setUnnumbered,
} from "../../src/protocols/vpp-api/routing-messages.ts";
import { soon } from "../contract/switch-under-test.ts";
import { waitUntil } from "../machine/wait-until.ts";
import { vhostUserValues } from "../stand-in/vpp/vhost-user-values.ts";
import type { VppRig } from "./vpp-rig.ts";
import { startVpp, vppName } from "./vpp-under-test.ts";

const MISSING = 99;
const PASS = { type: 1, dscp: 0 };
const DROP = { type: 0, dscp: 0 };

/** What we rely on, or have to live with; the stand-in must do the same as VPP itself. */
describe(`habits of ${vppName}`, () => {
  let rig: VppRig;
  let vpp: VppConnection;

  beforeAll(async () => {
    rig = await startVpp();
    vpp = await connectVpp({ path: rig.apiSocket }, soon());
  });
  afterEach(() => rig.reset());
  afterAll(async () => {
    vpp?.close();
    await rig?.close();
  });

  const make = (name: string, changes: { readonly is_server?: boolean; readonly path?: string } = {}) =>
    vpp.request(
      createVhostUser,
      {
        ...vhostUserValues(changes.path ?? join(rig.socketDirectory, name), name),
        is_server: changes.is_server ?? false,
      },
      soon(),
    );
  const interfaces = (sw_if_index = ANY_INDEX) =>
    vpp.dump(dumpInterfaces, { sw_if_index, name_filter_valid: false, name_filter: "" }, soon());
  const bridge = async (rx_sw_if_index: number, bd_id: number, enable = true) =>
    (await vpp.request(setBridge, { rx_sw_if_index, bd_id, port_type: 0, shg: 3, enable }, soon())).retval;
  const bridges = () => vpp.dump(dumpBridgeDomains, { bd_id: ANY_INDEX, sw_if_index: ANY_INDEX }, soon());
  const rewrite = async (sw_if_index: number, vtr_op: number, tag1 = 7) =>
    (await vpp.request(rewriteVlanTag, { sw_if_index, vtr_op, push_dot1q: 1, tag1, tag2: 0 }, soon())).retval;
  const policer = async (name: string, changes: object = {}) =>
    (
      await vpp.request(
        addPolicer,
        {
          is_add: true,
          name,
          cir: 1000,
          eir: 0,
          cb: 10_000n,
          eb: 0n,
          rate_type: 0,
          round_type: 0,
          type: 0,
          color_aware: false,
          conform_action: PASS,
          exceed_action: DROP,
          violate_action: DROP,
          ...changes,
        },
        soon(),
      )
    ).retval;

  it("gives an interface's number again as soon as it is free, the last freed one first", async () => {
    const [a, b] = [await make("a"), await make("b")];
    await vpp.request(deleteVhostUser, { sw_if_index: a.sw_if_index }, soon());
    await vpp.request(deleteVhostUser, { sw_if_index: b.sw_if_index }, soon());
    expect((await make("c")).sw_if_index).toBe(b.sw_if_index);
    expect((await make("d")).sw_if_index).toBe(a.sw_if_index);
    expect(await interfaces(b.sw_if_index)).toMatchObject([{ tag: "c", interface_dev_type: "vhost-user" }]);
  });

  it("refuses a second interface of the same socket, and names the one that has it", async () => {
    const { sw_if_index } = await make("a");
    expect(await make("a")).toEqual({ retval: -79, sw_if_index });
  });

  it("refuses what is not there, or is no socket", async () => {
    expect((await make("a", { path: "" })).retval).toBe(-73);
    const sw_if_index = MISSING;
    expect((await vpp.request(deleteVhostUser, { sw_if_index }, soon())).retval).toBe(-2);
    expect((await vpp.request(deleteSubInterface, { sw_if_index }, soon())).retval).toBe(-2);
    expect((await vpp.request(setInterfaceFlags, { sw_if_index, flags: 1 }, soon())).retval).toBe(-2);
    expect((await vpp.request(setMtu, { sw_if_index, mtu: [1500, 0, 0, 0] }, soon())).retval).toBe(-2);
    expect((await vpp.request(tagInterface, { is_add: true, sw_if_index, tag: "x" }, soon())).retval).toBe(
      -2,
    );
    expect((await vpp.request(filterVlanTag, { sw_if_index, enable_disable: true }, soon())).retval).toBe(-2);
    expect(await bridge(MISSING, 20)).toBe(-2);
    expect(await rewrite(MISSING, 1)).toBe(-2);
    expect(await interfaces(MISSING)).toEqual([]);
    expect(await vpp.dump(dumpVhostUser, { sw_if_index }, soon())).toEqual([]);
  });

  it("makes interfaces with an MTU of 9000 and takes any other without a word", async () => {
    const { sw_if_index } = await make("a");
    expect(await interfaces(sw_if_index)).toMatchObject([{ link_mtu: 9000, mtu: [9000, 0, 0, 0], flags: 0 }]);
    expect((await vpp.request(setMtu, { sw_if_index, mtu: [65_000, 0, 0, 0] }, soon())).retval).toBe(0);
    expect(await interfaces(sw_if_index)).toMatchObject([{ link_mtu: 9000, mtu: [65_000, 0, 0, 0] }]);
  });

  it("replaces a tag, and has no empty one", async () => {
    const { sw_if_index } = await make("a");
    const tag = (text: string) => vpp.request(tagInterface, { is_add: true, sw_if_index, tag: text }, soon());
    expect((await tag("b")).retval).toBe(0);
    expect((await tag("")).retval).toBe(-7);
    expect(await interfaces(sw_if_index)).toMatchObject([{ tag: "b" }]);
  });

  it("takes sub-interfaces with it when it deletes an interface, by whichever of their numbers", async () => {
    const { sw_if_index } = await make("a");
    const sub = await vpp.request(createVlan, { sw_if_index, vlan_id: 20 }, soon());
    expect(await interfaces(sub.sw_if_index)).toMatchObject([
      { sup_sw_if_index: sw_if_index, sub_id: 20, sub_outer_vlan_id: 20, sub_if_flags: 18, type: 1 },
    ]);
    for (const [vlan_id, retval] of [
      [20, -56],
      [0, -55],
      [4096, -55],
    ] as const) {
      // biome-ignore format: pairs
      expect((await vpp.request(createVlan, { sw_if_index, vlan_id }, soon())).retval).toBe(retval);
    }
    expect((await vpp.request(deleteSubInterface, { sw_if_index }, soon())).retval).toBe(-98);
    expect((await vpp.request(deleteVhostUser, { sw_if_index: sub.sw_if_index }, soon())).retval).toBe(0);
    expect(await interfaces()).toHaveLength(1);
  });

  it("makes a bridge domain that an interface is put into, and deletes none with members", async () => {
    const { sw_if_index } = await make("a");
    expect(await bridge(sw_if_index, 4711)).toBe(0);
    const made = (await bridges()).find(({ bd_id }) => bd_id === 4711);
    expect(made).toMatchObject({ bd_tag: "", forward: true, sw_if_details: [{ sw_if_index, shg: 3 }] });
    if (made === undefined) return;
    const remove = async () =>
      (await vpp.request(addBridgeDomain, { ...made, is_add: false }, soon())).retval;
    expect((await vpp.request(addBridgeDomain, { ...made, is_add: true }, soon())).retval).toBe(-119);
    expect(await remove()).toBe(-120);
    expect(await bridge(sw_if_index, 20)).toBe(0);
    expect(await remove()).toBe(0);
    expect(await remove()).toBe(-6);
  });

  it("clears tag rewriting when an interface leaves its bridge, and lets it leave twice", async () => {
    const { sw_if_index } = await make("a");
    expect(await bridge(sw_if_index, 20)).toBe(0);
    expect(await rewrite(sw_if_index, 1, 100)).toBe(0);
    const [row] = await interfaces(sw_if_index);
    expect(row).toMatchObject({ vtr_op: 1, vtr_push_dot1q: 1, vtr_tag1: 100 });
    expect(await bridge(sw_if_index, 0, false)).toBe(0);
    expect(await bridge(sw_if_index, 0, false)).toBe(0);
    expect(await interfaces(sw_if_index)).toMatchObject([{ vtr_op: 0, vtr_tag1: 0 }]);
    expect(await rewrite(sw_if_index, 3)).toBe(-72);
    expect(await rewrite(sw_if_index, 9)).toBe(-7);
  });

  it("has policers by name, and refuses those that make no sense", async () => {
    const { sw_if_index } = await make("a");
    const police = async (name: string, index: number, apply = true) =>
      (await vpp.request(policeInput, { name, sw_if_index: index, apply }, soon())).retval;
    const own = `kvu1:00000000:a:${sw_if_index}:in`;
    expect(await policer(own)).toBe(0);
    // 22.06 gives no reason.
    expect([-1, -81]).toContain(await policer(own));
    expect([-1, -7]).toContain(await policer("b", { cir: 0 }));
    expect([-1, -7]).toContain(await policer("b", { eir: 5000 }));
    expect([-1, -7]).toContain(await policer("b", { type: 2, eir: 500, eb: 10_000n }));
    expect([-1, -6]).toContain(await policer("b", { is_add: false }));
    expect(await police("b", sw_if_index)).toBe(-6);
    expect(await police(own, MISSING)).toBe(-2);
    expect(await police(own, sw_if_index)).toBe(0);
    expect(await police(own, sw_if_index, false)).toBe(0);
    expect(await policer(own, { is_add: false })).toBe(0);
  });

  it("reports interfaces that are made, changed and deleted", async () => {
    const heard: unknown[] = [];
    vpp.on(interfaceEvent, ({ sw_if_index, flags, deleted }) => heard.push([sw_if_index, flags, deleted]));
    await vpp.request(wantInterfaceEvents, { enable_disable: 1, pid: 1 }, soon());
    expect((await vpp.request(wantInterfaceEvents, { enable_disable: 1, pid: 1 }, soon())).retval).toBe(-31);
    const { sw_if_index } = await make("a");
    await waitUntil(() => heard.length === 1, { what: "the new interface is reported" });
    await vpp.request(setInterfaceFlags, { sw_if_index, flags: 1 }, soon());
    await waitUntil(() => heard.length === 2, { what: "the change is reported" });
    await vpp.request(deleteVhostUser, { sw_if_index }, soon());
    await waitUntil(() => heard.length >= 3, { what: "the end is reported" });
    expect(heard[0]).toEqual([sw_if_index, 0, false]);
    expect(heard[1]).toEqual([sw_if_index, 1, false]);
    expect(heard.at(-1)).toEqual([sw_if_index, 0, true]);
    await vpp.request(wantInterfaceEvents, { enable_disable: 0, pid: 1 }, soon());
  });

  it("keeps the route to a host whose interface is deleted, and before 26.02 its static neighbours", async () => {
    const { sw_if_index } = await make("a");
    const host = addressOf("10.77.0.5");
    const nh = { address: Buffer.alloc(16), via_label: 0, obj_id: 0, classify_table_index: 0 };
    const way = { table_id: 0, rpf_id: 0, weight: 1, preference: 0, type: 0, flags: 0, proto: 0, nh };
    const label_stack = Array.from({ length: 16 }, () => ({ is_uniform: 0, label: 0, ttl: 0, exp: 0 }));
    const route = (is_add: boolean, to = sw_if_index) =>
      vpp.request(
        addRoute,
        {
          is_add,
          is_multipath: !is_add,
          route: {
            table_id: 0,
            stats_index: 0,
            prefix: hostPrefix(host),
            paths: [{ sw_if_index: to, ...way, n_labels: 0, label_stack }],
          },
        },
        soon(),
      );
    const find = async (exact = host) =>
      vpp.request(findRoute, { table_id: 0, exact: 1, prefix: hostPrefix(exact) }, soon());
    const neighbor = { sw_if_index, flags: 3, mac_address: Buffer.alloc(6, 2), ...host };
    expect((await route(true, MISSING)).retval).toBe(-54);
    expect((await find()).retval).toBe(-6);
    expect((await route(true)).retval).toBe(0);
    expect((await vpp.request(addNeighbor, { is_add: true, neighbor }, soon())).retval).toBe(0);
    expect(await vpp.dump(dumpNeighbors, { sw_if_index, af: 0 }, soon())).toMatchObject([{ neighbor }]);
    await vpp.request(deleteVhostUser, { sw_if_index }, soon());
    // Fixed in 26.02 (VPP's commit e5b3666c12f).
    const outlives = (await vpp.version(soon())) < "26.02";
    const left = await vpp.dump(dumpNeighbors, { sw_if_index: ANY_INDEX, af: 0 }, soon());
    expect(left).toHaveLength(outlives ? 1 : 0);
    const removeNeighbor = async () =>
      (await vpp.request(addNeighbor, { is_add: false, neighbor }, soon())).retval;
    if (!outlives) expect(await removeNeighbor()).toBe(-2);
    expect((await find()).route.paths).toMatchObject([{ sw_if_index, type: 0 }]);
    expect((await route(false)).retval).toBe(-54);
    expect((await make("b")).sw_if_index).toBe(sw_if_index);
    if (outlives) expect(await removeNeighbor()).toBe(0);
    for (const _ of [1, 2]) expect((await route(false)).retval).toBe(0);
    expect((await find()).retval).toBe(-6);
  });

  it("lets an interface use another's addresses in the same table only, and not move while it does", async () => {
    const { sw_if_index } = await make("a");
    const asked = { mac_address: Buffer.from("026b76010203", "hex") };
    const loopback = (await vpp.request(createLoopback, asked, soon())).sw_if_index;
    expect(await interfaces(loopback)).toMatchObject([{ l2_address: asked.mac_address }]);
    const table = async (index: number, vrf_id: number) =>
      (await vpp.request(setTable, { sw_if_index: index, is_ipv6: false, vrf_id }, soon())).retval;
    const use = async (of: number, is_add = true, index = sw_if_index) =>
      (await vpp.request(setUnnumbered, { sw_if_index: of, unnumbered_sw_if_index: index, is_add }, soon()))
        .retval;
    const give = async (index: number, text = "10.78.0.1", is_add = true) =>
      (
        await vpp.request(
          addAddress,
          { sw_if_index: index, is_add, del_all: false, prefix: hostPrefix(addressOf(text)) },
          soon(),
        )
      ).retval;
    expect(await table(loopback, 4711)).toBe(-3);
    await vpp.request(addTable, { is_add: true, table: { table_id: 12, is_ip6: false, name: "" } }, soon());
    expect(await table(loopback, 12)).toBe(0);
    expect([await give(loopback), await give(loopback), await give(sw_if_index)]).toEqual([0, -105, 0]);
    expect(await give(sw_if_index, "10.78.0.1", false)).toBe(0);
    expect(await give(sw_if_index, "10.78.0.1", false)).toBe(-60);
    expect([await give(sw_if_index, "fd78::1"), await give(loopback, "fd78::1")]).toEqual([0, -127]);
    expect(await give(sw_if_index, "fd78::1", false)).toBe(0);
    expect(await table(loopback, 0)).toBe(-114);
    expect([await use(loopback), await use(MISSING), await use(loopback, true, MISSING)]).toEqual([
      -74, -10, -2,
    ]);
    expect(await table(sw_if_index, 12)).toBe(0);
    expect([await use(loopback), await use(loopback)]).toEqual([0, 0]);
    expect(await table(sw_if_index, 0)).toBe(-114);
    const linkLocal = async () => (await vpp.request(getLinkLocal, { sw_if_index }, soon())).retval;
    expect(await linkLocal()).toBe(-62);
    expect((await vpp.request(enableIp6, { sw_if_index, enable: true }, soon())).retval).toBe(0);
    expect(await linkLocal()).toBe(0);
    await vpp.request(deleteVhostUser, { sw_if_index }, soon());
    expect(await vpp.dump(dumpUnnumbered, { sw_if_index: ANY_INDEX }, soon())).toEqual([]);
    const remove = async (index: number) =>
      (await vpp.request(deleteLoopback, { sw_if_index: index }, soon())).retval;
    expect([await remove(loopback), await remove(loopback)]).toEqual([0, -2]);
    const gone = { table_id: 12, exact: 1, prefix: hostPrefix(addressOf("10.78.0.1")) };
    expect((await vpp.request(findRoute, gone, soon())).retval).toBe(-6);
  });

  it("says why it cannot connect, and makes the socket itself where it is asked to", async () => {
    const { sw_if_index } = await make("a");
    const errno = async () => (await vpp.dump(dumpVhostUser, { sw_if_index }, soon()))[0]?.sock_errno;
    await waitUntil(async () => (await errno()) === 2, { what: "VPP has tried" });
    const { retval } = await make("b", { is_server: true });
    expect(retval).toBe(0);
    const guest = connect(join(rig.socketDirectory, "b"));
    await once(guest, "connect", { signal: soon() });
    guest.destroy();
  });

  it("drops a message that it does not know, without a word", async () => {
    const socket = connect(rig.apiSocket);
    try {
      const unknown = Buffer.alloc(10);
      unknown.writeUInt16BE(0xfffe);
      socket.write(frame(unknown));
      socket.resume();
      await expect(once(socket, "close", { signal: AbortSignal.timeout(300) })).rejects.toThrow();
      expect((await vpp.request(controlPing, {}, soon())).retval).toBe(0);
    } finally {
      socket.destroy();
      rig.forgive();
    }
  });
});
