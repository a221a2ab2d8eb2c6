import { readFile, stat } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { dirname, join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { CniRig, DEVICE } from "../../test/stand-in/cni/cni-rig.ts";

let rig: CniRig;
afterEach(() => rig.close());

describe("who makes the socket", () => {
  it.each([
    [undefined, undefined, undefined],
    ["switch", undefined, "switch"],
    [undefined, "switch", "switch"],
    ["switch", "guest", undefined],
  ])("pool %j, network %j: the port is requested with %j", async (ofPool, ofNetwork, expected) => {
    rig = await CniRig.open({ pool: ofPool === undefined ? {} : { socketServer: ofPool } });
    await rig.allocate(DEVICE);
    // The switch is away: what the port would be is in the record that comes first.
    const noted: unknown[] = [];
    rig.records.ports.subscribe((_, after) => after && noted.push(after.settings.socketServer));
    rig.dataplane.dead = true;
    await rig.call("ADD", { config: { socketServer: ofNetwork } });
    expect(noted[0]).toBe(expected);
  });

  it("stays as it was allocated when the pool changes before its port is made", async () => {
    rig = await CniRig.open({ pool: { socketServer: "switch" } });
    await rig.allocate(DEVICE);
    const [allocation] = rig.records.allocations.list();
    await rig.records.allocations.update(
      allocation?.id ?? "",
      (now) => now && { ...now, socketServer: "guest" },
    );
    await rig.call("ADD");
    expect(rig.records.ports.list().map(({ settings }) => settings.socketServer)).toEqual([undefined]);
  });

  it("is in the device-info: mode server where the guest makes the socket", async () => {
    rig = await CniRig.open();
    await rig.allocate(DEVICE);
    const file = join(rig.top, "devinfo/cni/ns-net-c1_net1");
    await rig.call("ADD", { config: { runtimeConfig: { CNIDeviceInfoFile: file } } });
    expect(JSON.parse(await readFile(file, "utf8"))).toMatchObject({ "vhost-user": { mode: "server" } });
  });
});

describe("a socket that the switch makes", () => {
  let server: Server | undefined;
  afterEach(() => {
    server?.close();
    server = undefined;
  });

  it("stays the newer sandbox's when the older one's DEL comes late, and goes with its own", async () => {
    rig = await CniRig.open({ pool: { socketServer: "switch" } });
    await rig.allocate(DEVICE);
    const { dataplane } = rig;
    dataplane.capabilities = { forgetsPorts: true, servesInPlace: true, answersDhcp: false };
    const ensure = dataplane.ensurePort.bind(dataplane);
    dataplane.ensurePort = async (request, signal) => {
      if (server === undefined) {
        server = createServer();
        await new Promise<void>((resolve) => server?.listen(request.socketPath, resolve));
      }
      return ensure(request, signal);
    };
    await rig.call("ADD", { container: "old" });
    expect((await rig.call("ADD", { container: "new" })).exitCode).toBe(0);
    const made = rig.records.ports.list()[0]?.switchSocketPath ?? "";
    expect((await rig.call("DEL", { container: "old" })).exitCode).toBe(0);
    expect((await stat(made)).isSocket()).toBe(true);
    expect(rig.states()).toEqual(["new net1 attached"]);
    await rig.call("DEL", { container: "new" });
    await expect(stat(made)).rejects.toMatchObject({ code: "ENOENT" });
    expect((await stat(dirname(made))).isDirectory()).toBe(true);
  });
});
