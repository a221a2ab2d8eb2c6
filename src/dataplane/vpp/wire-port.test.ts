import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { vhostUserValues } from "../../../test/stand-in/vpp/vhost-user-values.ts";
import { startVppInDirectory, type VppInDirectory } from "../../../test/stand-in/vpp/vpp-in-directory.ts";
import { portSettingsSchema } from "../../config/port-settings.ts";
import { connectVpp, type VppConnection } from "../../protocols/vpp-api/connection.ts";
import { createVhostUser } from "../../protocols/vpp-api/messages.ts";
import { VppRequests } from "./requests.ts";
import { readView } from "./view.ts";
import { wirePort } from "./wire-port.ts";
import { wiringDifferences, wiringOf } from "./wiring.ts";

const soon = () => AbortSignal.timeout(30_000);
const BRIDGE = 7;
const KEEP = 5;
const ADD = 1;

describe("wiring a port of VPP", () => {
  let node: VppInDirectory;
  let connection: VppConnection;

  beforeEach(async () => {
    node = await startVppInDirectory();
    connection = await connectVpp({ path: node.apiSocket }, soon());
    await connection.request(
      createVhostUser,
      vhostUserValues(join(node.directory, "vhost.sock"), "p"),
      soon(),
    );
  });
  afterEach(async () => {
    connection.close();
    await node.close();
  });

  /** Wires the port for these settings, and gives what differs from them then: VLAN of each member and what it does. */
  async function wire(settings: object): Promise<readonly unknown[]> {
    const wiring = wiringOf(
      {
        name: "p",
        bridge: "",
        socketPath: "",
        settings: portSettingsSchema.parse(settings),
        owner: {} as never,
      },
      BRIDGE,
    );
    const port = async () => {
      const view = await readView(new VppRequests(connection, soon()));
      const [found] = view.ports;
      if (found === undefined) throw new Error("the port is gone");
      return { view, found };
    };
    const { found } = await port();
    await wirePort(new VppRequests(connection, soon()), { node: "n", ...found, name: "p" }, wiring);
    const after = await port();
    expect(wiringDifferences(after.view, after.found, "n", wiring)).toEqual([]);
    expect(node.vpp.violations).toEqual([]);
    return node.vpp
      .members(BRIDGE)
      .map(({ vlan, rewrite, filtered, policed }) => [vlan, rewrite.slice(0, 3), filtered, policed]);
  }

  const FREE = [0, [0, 0, 0], false, []];

  it("filters every member that is of one VLAN, else floods of other VLANs would reach the guest", async () => {
    expect(await wire({})).toEqual([FREE]);
    expect(await wire({ vlan: { mode: "access", tag: 5 } })).toEqual([[0, [ADD, 1, 5], true, []]]);
    expect(await wire({ vlan: { mode: "trunk", trunks: [6, 7] } })).toEqual([
      [6, [KEEP, 1, 6], true, []],
      [7, [KEEP, 1, 7], true, []],
    ]);
    expect(await wire({ vlan: { mode: "native-untagged", tag: 7, trunks: [6, 7] } })).toEqual([
      [0, [ADD, 1, 7], true, []],
      [6, [KEEP, 1, 6], true, []],
    ]);
    expect(await wire({ vlan: { mode: "dot1q-tunnel", tag: 5, customerVlans: [8] } })).toEqual([
      [8, [ADD, 0, 5], true, []],
    ]);
    expect(await wire({})).toEqual([FREE]);
  });

  it("applies each policer once to every member, and takes it off exactly there", async () => {
    const limits = { fromGuest: { rate: 1000, burst: 0 }, toGuest: { rate: 1000, burst: 0 } };
    const trunk = { vlan: { mode: "trunk", trunks: [6] } };
    expect(await wire({ ...limits, ...trunk })).toEqual([[6, [KEEP, 1, 6], true, ["in", "out"]]]);
    expect(await wire({ ...limits, ...trunk })).toEqual([[6, [KEEP, 1, 6], true, ["in", "out"]]]);
    expect(await wire({ ...limits, vlan: { mode: "trunk", trunks: [6, 9] } })).toEqual([
      [6, [KEEP, 1, 6], true, ["in", "out"]],
      [9, [KEEP, 1, 9], true, ["in", "out"]],
    ]);
    expect(await wire({ fromGuest: limits.fromGuest })).toEqual([[0, [0, 0, 0], false, ["in"]]]);
    expect(await wire({})).toEqual([FREE]);
  });
});
