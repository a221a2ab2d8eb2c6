import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Dataplane } from "../../src/dataplane/dataplane.ts";
import type { PortOwner, PortRequest } from "../../src/dataplane/port.ts";
import { openVppDataplane } from "../../src/dataplane/vpp/vpp-dataplane.ts";
import { Failure } from "../../src/failure/failure.ts";
import { silentLogger } from "../../src/logging/logger.ts";
import { connectVpp } from "../../src/protocols/vpp-api/connection.ts";
import { addBridgeDomain } from "../../src/protocols/vpp-api/messages.ts";
import { failureOf, portRequest, soon } from "../contract/switch-under-test.ts";
import { type CuttingProxy, startCuttingProxy } from "./cutting-proxy.ts";
import type { VppRig } from "./vpp-rig.ts";
import { startVpp, vppName } from "./vpp-under-test.ts";

const CUTS = 24;
const PORTS = 100;
const MBIT = 1_000_000;

describe(`a dataplane on ${vppName}`, () => {
  let rig: VppRig;
  let proxy: CuttingProxy;
  let dataplane: Dataplane;
  let owners: PortOwner[];
  let connections = 0;

  beforeAll(async () => {
    rig = await startVpp();
    proxy = await startCuttingProxy(join(rig.socketDirectory, "proxy"), rig.apiSocket);
    owners = [portRequest(rig).owner];
    dataplane = openVppDataplane({
      apiSocket: proxy.path,
      node: "node-a",
      ownersOf: () => owners,
      logger: silentLogger,
      onConnected: () => {
        connections += 1;
      },
    });
  });
  afterEach(async () => {
    proxy.arm();
    owners = [portRequest(rig).owner];
    await rig.reset();
  });
  afterAll(async () => {
    await dataplane?.close();
    await proxy?.close();
    await rig?.close();
  });

  /** A port with all that takes many messages: sub-interfaces and policers. */
  const rich = (): PortRequest =>
    portRequest(rig, {
      settings: {
        vlan: { mode: "native-untagged", tag: 5, trunks: [6, 7], customerVlans: [] },
        fromGuest: { rate: 100 * MBIT, burst: 0 },
        toGuest: { rate: 200 * MBIT, burst: 0, excess: { rate: 50 * MBIT, burst: 0 } },
        isolated: true,
      },
    });

  /** A routed one, which shares a loopback with others. */
  const routed = (): PortRequest =>
    portRequest(rig, {
      settings: {
        routed: {
          vrf: 9,
          createVrf: true,
          hosts: [
            { address: "10.9.0.5", gateway: "10.9.0.1" },
            { address: "fd09::5", gateway: "fd09::1" },
          ],
        },
      },
    });
  const KINDS = { rich, routed };

  it.each([
    ["rich", "toServer"],
    ["rich", "toClient"],
    ["routed", "toServer"],
    ["routed", "toClient"],
  ] as const)(
    "leaves nothing of a new port (%s) where the connection is cut, and the repeated call makes it (bytes %s)",
    async (kind, direction) => {
      if (kind === "routed" && !(await rig.offers("routed ports"))) return;
      const request = KINDS[kind]();
      await dataplane.probe("blue", soon()); // the table of messages is not what is to be cut
      proxy.arm();
      await dataplane.ensurePort(request, soon());
      const whole = proxy.seen[direction];
      let failures = 0;
      for (let cut = 0; cut < CUTS; cut += 1) {
        await rig.reset();
        await dataplane.probe("blue", soon());
        proxy.arm({ direction, afterBytes: Math.floor((whole * cut) / CUTS) });
        const failure = await dataplane.ensurePort(request, soon()).catch((thrown: unknown) => thrown);
        if (failure instanceof Failure) {
          failures += 1;
          expect(failure.code).toBe("dataplane-unavailable");
          expect(await rig.portNames()).toEqual([]);
          expect(await rig.belongings()).toEqual([]);
        }
        proxy.arm();
        await dataplane.ensurePort(request, soon());
        expect(await dataplane.checkPort(request, soon())).toEqual([]);
      }
      expect(failures).toBeGreaterThan(CUTS / 2); // else the cuts did not hit anything
    },
  );

  it.each(["rich", "routed"] as const)(
    "lets a removal that is cut be repeated until it is done (%s)",
    async (kind) => {
      if (kind === "routed" && !(await rig.offers("routed ports"))) return;
      const request = KINDS[kind]();
      for (let cut = 0; cut < CUTS; cut += 1) {
        await dataplane.ensurePort(request, soon());
        proxy.arm({ direction: "toServer", afterBytes: cut * 40 });
        await dataplane.removePort(request.name, soon()).catch(() => undefined);
        proxy.arm();
        await dataplane.removePort(request.name, soon());
        expect(await rig.portNames()).toEqual([]);
        expect(await rig.belongings()).toEqual([]);
      }
    },
  );

  it("makes all ports again when VPP has forgotten them, and says that it has connected again", async () => {
    const requests = Array.from({ length: PORTS }, (_, index) =>
      portRequest(rig, { name: `vhu${index}`, owner: { interfaceName: `net${index}` } }),
    );
    owners = requests.map(({ owner }) => owner);
    await Promise.all(requests.map((request) => dataplane.ensurePort(request, soon())));
    const before = connections;
    await rig.killSwitch();
    await rig.startSwitch();
    await Promise.all(requests.map((request) => dataplane.ensurePort(request, soon())));
    expect(connections).toBe(before + 1);
    const listed = await dataplane.listPorts(soon());
    expect(listed.map(({ owner }) => owner.interfaceName).sort()).toEqual(
      requests.map(({ owner }) => owner.interfaceName).sort(),
    );
  });

  it("lists a port whose records are lost, with what its socket's path shows", async () => {
    const allocationId = "0123456789abcdef";
    const socketPath = `/nowhere/${allocationId}/net1/vhost.sock`;
    await dataplane.ensurePort(portRequest(rig, { socketPath }), soon());
    owners = [];
    const [port] = await dataplane.listPorts(soon());
    expect(port).toMatchObject({
      name: "vhu0123456789ab",
      owner: {
        node: "node-a",
        podNamespace: "",
        podName: "",
        containerId: "",
        interfaceName: "net1",
        allocationId,
      },
    });
    expect(await dataplane.removePort("vhu0123456789ab", soon())).toBe(true);
  });

  it("knows a bridge domain by its number though it has a tag, and refuses a tag that two have", async () => {
    const connection = await connectVpp({ path: rig.apiSocket }, soon());
    try {
      const values = {
        flood: true,
        uu_flood: true,
        forward: true,
        learn: true,
        arp_term: false,
        arp_ufwd: false,
      };
      const add = (bd_id: number, changes: object = {}) =>
        connection.request(
          addBridgeDomain,
          { bd_id, ...values, mac_age: 0, bd_tag: "twin", is_add: true, ...changes },
          soon(),
        );
      await add(31);
      await add(32);
      await add(33, { flood: false, bd_tag: "mute" });
      const { bridge } = await dataplane.ensurePort(portRequest(rig, { bridge: "31" }), soon());
      expect(bridge).toBe("31");
      expect((await dataplane.listPorts(soon()))[0]?.bridge).toBe("twin");
      for (const name of ["twin", "mute"]) {
        const failure = await failureOf(dataplane.ensurePort(portRequest(rig, { bridge: name }), soon()));
        expect(failure.code).toBe("dataplane-misconfigured");
        expect(await dataplane.probe(name, soon())).toMatchObject({ ready: false });
      }
    } finally {
      connection.close();
    }
  });

  it("serves the socket itself where the network asks for it, and changes sides", async () => {
    const request = portRequest(rig, { settings: { socketServer: "switch" } });
    await dataplane.ensurePort(request, soon());
    expect(await dataplane.checkPort(request, soon())).toEqual([]);
    expect(await dataplane.checkPort(portRequest(rig), soon())).toHaveLength(1);
    await dataplane.ensurePort(portRequest(rig), soon());
    expect(await dataplane.checkPort(portRequest(rig), soon())).toEqual([]);
  });
});
