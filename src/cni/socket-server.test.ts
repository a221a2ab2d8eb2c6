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
  ])("pool %j, network %j: the port is asked for with %j", async (ofPool, ofNetwork, expected) => {
    rig = await CniRig.open({ pool: ofPool === undefined ? {} : { socketServer: ofPool } });
    await rig.allocate(DEVICE);
    // The switch is away: what the port would be is in what the daemon notes first.
    const noted: unknown[] = [];
    rig.records.ports.subscribe((_, after) => after && noted.push(after.settings.socketServer));
    rig.dataplane.dead = true;
    await rig.call("ADD", { config: { socketServer: ofNetwork } });
    expect(noted[0]).toBe(expected);
  });

  it("stays what the container was told when the pool changes before its port is made", async () => {
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

  it("is told in the device-info: with the guest as server its side is the server", async () => {
    rig = await CniRig.open();
    await rig.allocate(DEVICE);
    const file = join(rig.top, "devinfo/cni/ns-net-c1_net1");
    await rig.call("ADD", { config: { runtimeConfig: { CNIDeviceInfoFile: file } } });
    expect(JSON.parse(await readFile(file, "utf8"))).toMatchObject({ "vhost-user": { mode: "server" } });
  });
});

describe("a socket that the switch makes", () => {
  let server: Server | undefined;
  afterEach(() => server?.close());

  it("stays a newer sandbox's where the older one's DEL comes to its end after that one's ADD", async () => {
    rig = await CniRig.open({ pool: { socketServer: "switch" } });
    await rig.allocate(DEVICE);
    const { dataplane: vpp } = rig;
    vpp.capabilities = { forgetsPorts: true, servesInPlace: true };
    await rig.call("ADD", { container: "old" });
    // Both remove the older port; the DEL, which comes second, has to wait longer.
    const removals = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const begun = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const remove = vpp.removePort.bind(vpp);
    let asked = 0;
    vpp.removePort = async (name, signal) => {
      const turn = asked++;
      begun[turn]?.resolve();
      await removals[turn]?.promise;
      return remove(name, signal);
    };
    const ensure = vpp.ensurePort.bind(vpp);
    vpp.ensurePort = async (request, signal) => {
      server = createServer();
      await new Promise<void>((resolve) => server?.listen(request.socketPath, resolve));
      return ensure(request, signal);
    };
    const add = rig.call("ADD", { container: "new" });
    await begun[0]?.promise;
    const del = rig.call("DEL", { container: "old" });
    await begun[1]?.promise;
    removals[0]?.resolve();
    expect((await add).exitCode).toBe(0);
    const [record] = rig.records.ports.list();
    const made = record?.switchSocketPath ?? "";
    expect((await stat(made)).isSocket()).toBe(true);
    removals[1]?.resolve();
    expect((await del).exitCode).toBe(0);
    expect((await stat(made)).isSocket()).toBe(true);
    expect(rig.records.ports.list()).toMatchObject([{ containerId: "new", state: "attached" }]);
    // Its own DEL takes it away.
    await rig.call("DEL", { container: "new" });
    await expect(stat(made)).rejects.toMatchObject({ code: "ENOENT" });
    expect((await stat(dirname(made))).isDirectory()).toBe(true);
  });
});
