import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { RoutedSettings } from "../../src/config/port-settings.ts";
import type { Dataplane } from "../../src/dataplane/dataplane.ts";
import type { PortRequest } from "../../src/dataplane/port.ts";
import { addressOf, hostPrefix } from "../../src/dataplane/vpp/routed-state.ts";
import type { VppConnection } from "../../src/protocols/vpp-api/connection.ts";
import { setInterfaceFlags } from "../../src/protocols/vpp-api/messages.ts";
import {
  addAddress,
  addNeighbor,
  addRoute,
  addTable,
  createLoopback,
  enableIp6,
  findRoute,
  setUnnumbered,
} from "../../src/protocols/vpp-api/routing-messages.ts";
import { failureOf, portRequest, soon } from "../contract/switch-under-test.ts";
import type { VppRig } from "./vpp-rig.ts";
import { startVpp, vppName } from "./vpp-under-test.ts";

const VRF = 7;
const V4 = { address: "10.9.0.5", gateway: "10.9.0.1" };
const V6 = { address: "fd09::5", gateway: "fd09::1" };
const NO_LABELS = Array.from({ length: 16 }, () => ({ is_uniform: 0, label: 0, ttl: 0, exp: 0 }));

describe(`routed ports of ${vppName}`, () => {
  let rig: VppRig;
  let dataplane: Dataplane;

  beforeAll(async () => {
    rig = await startVpp();
    dataplane = rig.open();
  });
  beforeEach(async (context) => {
    if (!(await rig.offers("routed ports"))) context.skip();
  });
  afterEach(async () => {
    for (const name of await rig.portNames()) await dataplane.removePort(name, soon());
    await rig.reset();
  });
  afterAll(async () => {
    await dataplane?.close();
    await rig?.close();
  });

  const asked = (changes: Partial<RoutedSettings> = {}, name = "vhu0123456789ab"): PortRequest =>
    portRequest(rig, {
      name,
      settings: { routed: { vrf: VRF, createVrf: true, hosts: [V4, V6], ...changes } },
      owner: { containerId: name },
    });
  const host = (at: number) => ({ address: `10.9.0.${at}`, gateway: "10.9.0.1" });
  const indexOf = (name = "vhu0123456789ab") =>
    rig.withVpp(async (_, { ports }) => ports.find((port) => port.name === name)?.index ?? -1);
  /** Interface that a route to this very address goes out by, or how many ways there are. */
  const routeTo = (address: string, vrf = VRF) =>
    rig.withVpp(async (connection) => {
      const prefix = hostPrefix(addressOf(address));
      const { retval, route } = await connection.request(
        findRoute,
        { table_id: vrf, exact: 1, prefix },
        soon(),
      );
      if (retval < 0) return undefined;
      return route.paths.length === 1 ? route.paths[0]?.sw_if_index : `${route.paths.length} ways`;
    });
  const changeRoute = (connection: VppConnection, index: number, address: string, is_add: boolean) => {
    const { af, un } = addressOf(address);
    const nh = { address: Buffer.alloc(16), via_label: 0, obj_id: 0, classify_table_index: 0 };
    const way = { table_id: 0, rpf_id: 0, weight: 1, preference: 0, type: 0, flags: 0, proto: af, nh };
    const paths = [{ sw_if_index: index, ...way, n_labels: 0, label_stack: NO_LABELS }];
    const route = { table_id: VRF, stats_index: 0, prefix: hostPrefix({ af, un }), paths };
    return connection.request(addRoute, { is_add, is_multipath: true, route }, soon());
  };

  it("need their table, make it where they are to, and leave nothing but it", async () => {
    const table = 70;
    const failure = await failureOf(dataplane.ensurePort(asked({ vrf: table, createVrf: false }), soon()));
    expect(failure.code).toBe("vrf-missing");
    expect(await rig.portNames()).toEqual([]);
    const made = await dataplane.ensurePort(asked({ vrf: table }), soon());
    expect(made).toMatchObject({ bridge: "", mtu: 1500, link: "down" });
    expect(await dataplane.checkPort(asked({ vrf: table }), soon())).toEqual([]);
    const index = await indexOf();
    expect([await routeTo(V4.address, table), await routeTo(V6.address, table)]).toEqual([index, index]);
    const loopback = await routeTo(V4.gateway, table);
    expect(await routeTo(V6.gateway, table)).toBe(loopback);
    expect((await dataplane.listPorts(soon())).map(({ name, bridge }) => [name, bridge])).toEqual([
      ["vhu0123456789ab", ""],
    ]);
    expect(await dataplane.removePort("vhu0123456789ab", soon())).toBe(true);
    expect(await rig.belongings()).toEqual([]);
    for (const { address, gateway } of [V4, V6]) {
      expect([await routeTo(address, table), await routeTo(gateway, table)]).toEqual([undefined, undefined]);
    }
    await dataplane.ensurePort(asked({ vrf: table, createVrf: false }), soon());
  });

  it("need no table of their own, nor IPv6", async () => {
    const request = asked({ vrf: 0, createVrf: false, hosts: [V4] });
    await dataplane.ensurePort(request, soon());
    expect(await dataplane.checkPort(request, soon())).toEqual([]);
    expect(await routeTo(V4.address, 0)).toBe(await indexOf());
  });

  it("share the gateways of their network, which go with the last of them", async () => {
    const names = ["vhu-a", "vhu-b", "vhu-c", "vhu-d"];
    const requests = names.map((name, at) => asked({ hosts: [host(10 + at)] }, name));
    await Promise.all(requests.map((request) => dataplane.ensurePort(request, soon())));
    for (const request of requests) expect(await dataplane.checkPort(request, soon())).toEqual([]);
    const gateway = await routeTo("10.9.0.1");
    await Promise.all(names.slice(1).map((name) => dataplane.removePort(name, soon())));
    expect(await routeTo("10.9.0.1")).toBe(gateway);
    // A network that got a second family later.
    const both = asked({ hosts: [host(20), V6] }, "vhu-e");
    await dataplane.ensurePort(both, soon());
    expect(await routeTo("fd09::1")).toBe(gateway);
    expect(await dataplane.checkPort(both, soon())).toEqual([]);
    await dataplane.removePort("vhu-a", soon());
    expect(await routeTo("10.9.0.1")).toBe(gateway);
    await dataplane.removePort("vhu-e", soon());
    expect(await rig.belongings()).toEqual([]);
  });

  it("are the same addresses in two tables", async () => {
    const [one, other] = [asked({}, "vhu-a"), asked({ vrf: VRF + 1 }, "vhu-b")];
    await Promise.all([one, other].map((request) => dataplane.ensurePort(request, soon())));
    for (const request of [one, other]) expect(await dataplane.checkPort(request, soon())).toEqual([]);
  });

  it("are repaired in place, whatever is missing", async () => {
    const request = asked();
    await dataplane.ensurePort(request, soon());
    const index = await indexOf();
    const v6 = addressOf(V6.address);
    const neighbor = { sw_if_index: index, flags: 3, mac_address: Buffer.alloc(6, 2), ...v6 };
    const breaks: readonly ((connection: VppConnection, loopback: number) => Promise<unknown>)[] = [
      (vpp) => changeRoute(vpp, index, V4.address, false),
      (vpp) => changeRoute(vpp, index, V6.address, false),
      (vpp) => vpp.request(addNeighbor, { is_add: false, neighbor }, soon()),
      (vpp) => vpp.request(addNeighbor, { is_add: true, neighbor }, soon()),
      (vpp) =>
        vpp.request(
          addNeighbor,
          { is_add: true, neighbor: { ...neighbor, ...addressOf("10.9.0.66") } },
          soon(),
        ),
      (vpp, sw_if_index) =>
        vpp.request(setUnnumbered, { sw_if_index, unnumbered_sw_if_index: index, is_add: false }, soon()),
      (vpp) => vpp.request(enableIp6, { sw_if_index: index, enable: false }, soon()),
      (vpp) => vpp.request(setInterfaceFlags, { sw_if_index: index, flags: 0 }, soon()),
      (vpp, sw_if_index) => vpp.request(setInterfaceFlags, { sw_if_index, flags: 0 }, soon()),
    ];
    for (const [at, damage] of breaks.entries()) {
      const loopback = Number(await routeTo(V4.gateway));
      await rig.withVpp((connection) => damage(connection, loopback));
      expect(await dataplane.checkPort(request, soon()), `damage ${at}`).not.toEqual([]);
      await dataplane.ensurePort(request, soon());
      expect(await dataplane.checkPort(request, soon()), `damage ${at}`).toEqual([]);
      expect(await indexOf()).toBe(index);
    }
  });

  it("change addresses and table in place, and become a bridge's port and back", async () => {
    await dataplane.ensurePort(asked(), soon());
    const index = await indexOf();
    const moved = asked({
      vrf: VRF + 1,
      hosts: [{ address: "10.8.0.5", gateway: "10.8.0.1" }],
    });
    expect(await dataplane.checkPort(moved, soon())).not.toEqual([]);
    await dataplane.ensurePort(moved, soon());
    expect(await dataplane.checkPort(moved, soon())).toEqual([]);
    expect(await indexOf()).toBe(index);
    for (const address of [V4.address, V4.gateway, V6.address, V6.gateway]) {
      expect(await routeTo(address)).toBeUndefined();
    }
    const bridged = portRequest(rig, { owner: { containerId: "vhu0123456789ab" } });
    expect(await dataplane.checkPort(bridged, soon())).not.toEqual([]);
    await dataplane.ensurePort(bridged, soon());
    expect(await dataplane.checkPort(bridged, soon())).toEqual([]);
    expect(await rig.belongings()).toEqual([]);
    expect(await routeTo("10.8.0.5", VRF + 1)).toBeUndefined();
    await dataplane.ensurePort(asked(), soon());
    expect(await dataplane.checkPort(asked(), soon())).toEqual([]);
  });

  it("refuse addresses that are routed to others, and leave them alone", async () => {
    await dataplane.ensurePort(asked({ hosts: [host(10)] }, "vhu-a"), soon());
    const taken = await failureOf(dataplane.ensurePort(asked({ hosts: [host(10)] }, "vhu-b"), soon()));
    expect([taken.code, taken.message]).toEqual(["port-conflict", expect.stringContaining("port vhu-a")]);
    const gateway = { address: "10.9.0.1", gateway: "10.9.0.2" };
    expect((await failureOf(dataplane.ensurePort(asked({ hosts: [gateway] }, "vhu-b"), soon()))).code).toBe(
      "port-conflict",
    );
    expect(await routeTo("10.9.0.10")).toBe(await indexOf("vhu-a"));
    expect(await rig.portNames()).toEqual(["vhu-a"]);

    await rig.makeForeignPort("foreign", join(rig.socketDirectory, "foreign"));
    const foreign = await indexOf("foreign");
    await rig.withVpp((connection) => changeRoute(connection, foreign, "10.9.0.11", true));
    const routed = await failureOf(dataplane.ensurePort(asked({ hosts: [host(11)] }, "vhu-b"), soon()));
    const fix = expect.stringMatching(/vppctl ip route del 10\.9\.0\.11\/32 table 7 via \w/);
    expect(routed).toMatchObject({ code: "port-conflict", fix });
    expect(await routeTo("10.9.0.11")).toBe(foreign);
    await rig.withVpp((connection) => changeRoute(connection, foreign, "10.9.0.11", false));
  });

  it("refuse a gateway that another interface has, and leave it alone", async () => {
    await rig.withVpp(async (connection) => {
      const { sw_if_index } = await connection.request(
        createLoopback,
        { mac_address: Buffer.alloc(6) },
        soon(),
      );
      const prefix = hostPrefix(addressOf(V4.gateway));
      const values = { sw_if_index, is_add: true, del_all: false, prefix };
      expect((await connection.request(addAddress, values, soon())).retval).toBe(0);
    });
    const before = await rig.belongings();
    const failure = await failureOf(dataplane.ensurePort(asked({ vrf: 0 }), soon()));
    expect([failure.code, failure.message]).toEqual([
      "dataplane-misconfigured",
      expect.stringContaining("10.9.0.1"),
    ]);
    expect(await rig.portNames()).toEqual([]);
    expect(await rig.belongings()).toEqual(before);
  });

  it("take their routes with them also where they were routed by half", async () => {
    await dataplane.ensurePort(asked(), soon());
    const [index, loopback] = [await indexOf(), Number(await routeTo(V4.gateway))];
    await rig.withVpp((vpp) =>
      vpp.request(
        setUnnumbered,
        { sw_if_index: loopback, unnumbered_sw_if_index: index, is_add: false },
        soon(),
      ),
    );
    expect(await dataplane.removePort("vhu0123456789ab", soon())).toBe(true);
    for (const { address } of [V4, V6]) expect(await routeTo(address)).toBeUndefined();
    expect(await rig.belongings()).toEqual([]);
  });

  it("leave routes alone that lead to another interface by now", async () => {
    await dataplane.ensurePort(asked(), soon());
    await rig.makeForeignPort("foreign", join(rig.socketDirectory, "foreign"));
    const [index, foreign] = [await indexOf(), await indexOf("foreign")];
    await rig.withVpp((connection) => changeRoute(connection, index, V4.address, false));
    await rig.withVpp((connection) => changeRoute(connection, foreign, V4.address, true));
    expect(await dataplane.removePort("vhu0123456789ab", soon())).toBe(true);
    expect([await routeTo(V4.address), await routeTo(V6.address)]).toEqual([foreign, undefined]);
    await rig.withVpp((connection) => changeRoute(connection, foreign, V4.address, false));
  });

  it("come back when another client deleted them, and leave no gateway when they do not", async () => {
    await dataplane.ensurePort(asked(), soon());
    await rig.removeBehindOurBack("vhu0123456789ab");
    await dataplane.ensurePort(asked(), soon());
    expect(await dataplane.checkPort(asked(), soon())).toEqual([]);
    await rig.removeBehindOurBack("vhu0123456789ab");
    expect(await dataplane.removeStrays(soon())).toBe(1);
    expect(await rig.belongings()).toEqual([]);
    // What a deleted interface left of its routes is taken over.
    await dataplane.ensurePort(asked({}, "vhu-other"), soon());
    expect(await routeTo(V4.address)).toBe(await indexOf("vhu-other"));
  });

  it("are made again when VPP has forgotten them and their tables", async () => {
    const requests = ["vhu-a", "vhu-b"].map((name, at) => asked({ hosts: [host(10 + at)] }, name));
    for (const request of requests) await dataplane.ensurePort(request, soon());
    await rig.killSwitch();
    await rig.startSwitch();
    const missing = await failureOf(dataplane.ensurePort(asked({ createVrf: false }), soon()));
    expect(missing.code).toBe("vrf-missing");
    await Promise.all(requests.map((request) => dataplane.ensurePort(request, soon())));
    for (const request of requests) expect(await dataplane.checkPort(request, soon())).toEqual([]);
  });

  it("have limits as others have", async () => {
    const request = asked();
    const limited = {
      ...request,
      settings: { ...request.settings, fromGuest: { rate: 1_000_000, burst: 0 } },
    };
    await dataplane.ensurePort(limited, soon());
    expect(await dataplane.checkPort(limited, soon())).toEqual([]);
    expect(await dataplane.checkPort(request, soon())).toHaveLength(1);
    await dataplane.removePort(request.name, soon());
    expect(await rig.belongings()).toEqual([]);
  });

  it("have a table that may be made many times", async () => {
    await rig.withVpp(async (connection) => {
      for (const is_add of [true, true]) {
        const table = { table_id: 71, is_ip6: false, name: "" };
        expect((await connection.request(addTable, { is_add, table }, soon())).retval).toBe(0);
      }
    });
    const failure = await failureOf(dataplane.ensurePort(asked({ vrf: 71, createVrf: false }), soon()));
    expect(failure.message).toContain("IPv6");
  });
});
