import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { portRequest, soon } from "../../../test/contract/switch-under-test.ts";
import { startVppInDirectory, type VppInDirectory } from "../../../test/stand-in/vpp/vpp-in-directory.ts";
import { silentLogger } from "../../logging/logger.ts";
import { connectVpp } from "../../protocols/vpp-api/connection.ts";
import { deleteVhostUser, dumpInterfaces, setMtu } from "../../protocols/vpp-api/messages.ts";
import type { Dataplane } from "../dataplane.ts";
import { openVppDataplane } from "./vpp-dataplane.ts";

describe("the settled ports of VPP", () => {
  let node: VppInDirectory;
  let dataplane: Dataplane;

  beforeEach(async () => {
    node = await startVppInDirectory();
    const { apiSocket } = node;
    dataplane = openVppDataplane({ apiSocket, node: "node-a", ownersOf: () => [], logger: silentLogger });
  });
  afterEach(async () => {
    await dataplane.close();
    await node.close();
  });

  const requests = (count: number) =>
    Array.from({ length: count }, (_, at) =>
      portRequest(
        { bridges: ["20", "20"], socketDirectory: node.directory },
        {
          name: `vhu${at}`,
          settings: {
            createBridge: true,
            ...(at % 2 === 0 ? {} : { toGuest: { rate: 1_000_000, burst: 1_000_000 } }),
          },
          owner: { interfaceName: `net${at}` },
        },
      ),
    );
  const costOf = async (work: () => Promise<unknown>) => {
    const before = node.vpp.requests;
    await work();
    return node.vpp.requests - before;
  };

  it("are read at once, however many there are, and a port that is as asked costs no reading of its own", async () => {
    const all = requests(40);
    for (const request of all) await dataplane.ensurePort(request, soon());
    const few = await costOf(() => dataplane.settledPorts?.(all.slice(0, 2), soon()) ?? Promise.reject());
    const many = await costOf(() => dataplane.settledPorts?.(all, soon()) ?? Promise.reject());
    expect(many).toBe(few);
    const [first] = all;
    if (first === undefined) throw new Error("no port");
    expect(await costOf(() => dataplane.ensurePort(first, soon()))).toBe(few);
  });

  it("are none that is missing, is another's or differs", async () => {
    const all = requests(4);
    for (const request of all) await dataplane.ensurePort(request, soon());
    const connection = await connectVpp({ path: node.apiSocket }, soon());
    const rows = await connection.dump(
      dumpInterfaces,
      { sw_if_index: 0xffff_ffff, name_filter_valid: false, name_filter: "" },
      soon(),
    );
    const [gone, changed] = rows.filter(({ tag }) => tag.startsWith("kvu1:"));
    await connection.request(deleteVhostUser, { sw_if_index: gone?.sw_if_index ?? 0 }, soon());
    await connection.request(
      setMtu,
      { sw_if_index: changed?.sw_if_index ?? 0, mtu: [1400, 0, 0, 0] },
      soon(),
    );
    connection.close();
    const [, , third, fourth] = all;
    if (third === undefined || fourth === undefined) throw new Error("no ports");
    const asked = [...all.slice(0, 3), { ...fourth, owner: { ...fourth.owner, interfaceName: "other" } }];
    expect(await dataplane.settledPorts?.(asked, soon())).toEqual([third.name]);
  });
});
