import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { announcementFrames, unusedGroup } from "../../src/announcement/frames.ts";
import { portSettingsSchema } from "../../src/config/port-settings.ts";
import type { Dataplane } from "../../src/dataplane/dataplane.ts";
import { FrameInjector } from "../../src/dataplane/vpp/announce.ts";
import { whyNotOffered } from "../../src/dataplane/vpp/offers.ts";
import { VppRequests } from "../../src/dataplane/vpp/requests.ts";
import { connectVpp, type VppConnection } from "../../src/protocols/vpp-api/connection.ts";
import { executeLine } from "../../src/protocols/vpp-api/messages.ts";
import { portRequest, soon } from "../contract/switch-under-test.ts";
import { startRealVpp } from "../integration/vpp-process.ts";
import { startVppRig, type VppRig } from "../integration/vpp-rig.ts";

const MAC = "02:00:00:00:00:07";
const FRAMES = announcementFrames({ mac: MAC, addresses: ["10.9.0.5", "fd09::5"], vlans: [] }, unusedGroup());

/** Frames that a capture of VPP holds, in hexadecimal digits. */
async function readCapture(file: string): Promise<readonly string[]> {
  const bytes = await readFile(file);
  const frames: string[] = [];
  for (let at = 24; at < bytes.length; ) {
    const length = bytes.readUInt32LE(at + 8);
    frames.push(bytes.toString("hex", at + 16, at + 16 + length));
    at += 16 + length;
  }
  return frames;
}

describe("frames that VPP accepts as if a guest had sent them", () => {
  let vpp: VppRig;
  let connection: VppConnection;
  let dataplane: Dataplane;
  let captures = 0;
  let isOffered = false;
  const injector = new FrameInjector();

  const line = async (cmd: string) => {
    const { retval, reply } = await connection.request(executeLine, { cmd }, soon());
    expect([cmd, retval, reply]).toEqual([cmd, 0, expect.any(String)]);
    return reply;
  };
  /** Sends them by a port's interface, and gives what a member of its bridge domain was to send. */
  const inject = async (settings: object, frames: readonly Uint8Array[] = FRAMES) => {
    const request = portRequest(vpp, { bridge: "20", settings: portSettingsSchema.parse(settings) });
    await dataplane.ensurePort(request, soon());
    const file = join(vpp.run.directory, `capture-${captures++}.pcap`);
    await line(`packet-generator capture pg1 pcap ${file} count 100`);
    const name = await vpp.withVpp(async (_, { ports }) => ports[0]?.interface.interface_name ?? "");
    await injector.inject(new VppRequests(connection, soon()), name, frames);
    await line("packet-generator capture disable pg1");
    return readCapture(file);
  };

  beforeAll(async () => {
    const binary = process.env["VPP_BIN"];
    if (binary === undefined) throw new Error("VPP_BIN names no VPP; npm run test:vpp says what it needs");
    vpp = await startVppRig((run, directory) => startRealVpp(run, binary, directory));
    connection = await connectVpp({ path: vpp.apiSocket }, soon());
    dataplane = vpp.open();
    isOffered = (await whyNotOffered(new VppRequests(connection, soon()), "announcements")) === undefined;
    await line("create packet-generator interface pg1");
    await line("set interface l2 bridge pg1 20");
    await line("set interface state pg1 up");
  });
  // An older VPP may crash; the daemon gives it no frames.
  beforeEach((context) => {
    if (!isOffered) context.skip();
  });
  afterEach(async () => {
    expect(await line("show packet-generator")).toContain("no streams");
    await vpp.reset();
  });
  afterAll(async () => {
    connection?.close();
    await dataplane?.close();
    await vpp?.close();
  });

  it("are seen by another member of the bridge domain, which knows the guest's place then", async () => {
    const seen = await inject({});
    expect([...seen].sort()).toEqual(FRAMES.map((frame) => frame.toString("hex")).sort());
    expect(await line("show l2fib all")).toContain(MAC);
  });

  it("carry the port's access VLAN", async () => {
    const seen = await inject({ vlan: { mode: "access", tag: 5 } });
    expect(seen).toHaveLength(FRAMES.length);
    for (const frame of seen) expect(frame.slice(24, 32)).toBe("81000005");
  });

  it("pass a trunk with the tags that it carries, and no others", async () => {
    const frames = announcementFrames({ mac: MAC, addresses: [], vlans: [6, 8] }, unusedGroup());
    const seen = await inject({ vlan: { mode: "trunk", trunks: [6, 7] } }, frames);
    expect(seen.map((frame) => frame.slice(24, 32))).toEqual(["81000006", "81000006"]);
  });

  it("have their streams deleted, also those that a killed daemon left", async () => {
    await inject({});
    const name = await vpp.withVpp(async (_, { ports }) => ports[0]?.interface.interface_name ?? "");
    const hex = "ff".repeat(60);
    for (const stream of ["kvu-77-0", "another"]) {
      await line(
        `packet-generator new { name ${stream} limit 1 source pg1 interface ${name} node ethernet-input size 60-60 data { hex 0x${hex} } }`,
      );
    }
    expect(await dataplane.removeStrays(soon())).toBe(1);
    const left = await line("show packet-generator");
    expect([left.includes("kvu-77-0"), left.includes("another")]).toEqual([false, true]);
    await line("packet-generator delete another");
  });

  it("are refused where there is no such interface, and leave nothing", async () => {
    const failing = injector.inject(new VppRequests(connection, soon()), "VirtualEthernet0/0/77", FRAMES);
    await expect(failing).rejects.toMatchObject({ code: "port-failed" });
  });

  it("are distinguished by VPP's message from what it does not support", async () => {
    const cmd = "no-such-generator new { }";
    const { retval, reply } = await connection.request(executeLine, { cmd }, soon());
    expect([retval < 0, reply]).toEqual([true, expect.stringMatching(/^unknown input/)]);
  });
});
