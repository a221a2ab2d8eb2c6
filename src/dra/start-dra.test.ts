import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { waitUntil } from "../../test/machine/wait-until.ts";
import { type ApiRig, startApiRig } from "../../test/stand-in/api-server/api-rig.ts";
import type { Json } from "../../test/stand-in/api-server/object-store.ts";
import { IpamPlugin } from "../../test/stand-in/cni/ipam-plugin.ts";
import { claimObject, DRIVER, portParameters } from "../../test/stand-in/dra/claim-object.ts";
import { type DriverRig, openDriverRig } from "../../test/stand-in/dra/driver-rig.ts";
import { type Clock, systemClock } from "../sync/clock.ts";
import { type RunningDra, startDra } from "./start-dra.ts";

let rig: ApiRig;
let node: DriverRig;
let dra: RunningDra | undefined;

beforeEach(async () => {
  rig = await startApiRig();
  rig.server.store.create("nodes", { metadata: { name: "n1" } });
  const { serviceAccountDirectory, logger } = rig;
  node = await openDriverRig({ url: rig.server.url, serviceAccountDirectory, logger });
});
afterEach(async () => {
  await node.kubelet.stop();
  await dra?.close();
  dra = undefined;
  await rig.close();
  await node.close();
});

const offered = () =>
  rig.server.store.all("resourceslices").flatMap(({ spec }) => ((spec as Json)["devices"] ?? []) as Json[]);
const settles = (what: string, isSo: () => boolean) => waitUntil(isSo, { what });

describe("the driver", () => {
  it("offers the ports of claims, prepares a claim of one and writes its status", async () => {
    const { kubelet, options, calls, top } = node;
    dra = await startDra(options);
    kubelet.start();
    await kubelet.waitForDriver(DRIVER);
    await settles("the driver knows that it is registered", () => dra?.registered === true);
    expect(dra).toMatchObject({ resource: DRIVER, registrations: 1 });
    await settles("devices are published", () => offered().length === 1);
    expect(offered()).toMatchObject([
      {
        ...{ name: "one", capacity: { ports: { value: "4" } } },
        attributes: { "resource.kubernetes.io/pciBusID": { string: "0000:3b:00.1" } },
      },
    ]);

    const ipam = await IpamPlugin.install({ binDir: join(top, "plugins"), directory: join(top, "ipam") });
    const { metadata, ...claim } = claimObject({
      ...{ name: "net", namespace: "tenant" },
      config: [{ source: "FromClass", parameters: portParameters({ ipam: { type: ipam.type } }) }],
    });
    const { uid } = rig.server.store.create("tenant/resourceclaims", {
      ...claim,
      metadata: { name: "net", namespace: "tenant" },
    }).metadata;
    await kubelet.prepare("pod-uid", DRIVER, [{ namespace: "tenant", name: "net", uid }]);
    expect(calls).toEqual(["prepare net"]);
    const status = () =>
      ((rig.server.store.get("tenant/resourceclaims", "net")["status"] as Json)["devices"] ?? []) as Json[];
    await settles("the claim has a status", () => status().length === 1);
    const socketPath = "/var/run/vhostuser/claims/net/net/vhost.sock";
    expect(status()).toMatchObject([
      {
        ...{ driver: DRIVER, pool: "n1", device: "one" },
        conditions: [{ type: "Ready", status: "True" }],
        data: { bridge: "br0", socketPath },
        networkData: { interfaceName: "net", ips: ["10.9.0.1/24"] },
      },
    ]);
    expect(rig.server.answers.filter((one) => one.startsWith("PATCH"))).toEqual(["PATCH 200"]);
    await kubelet.unprepare("pod-uid", DRIVER);
    expect(options.node.records.allocations.list()).toEqual([]);
    expect(await ipam.held()).toEqual([]);
  });

  it("withdraws the devices of a pool whose switch is away, and says so to kubelet, both at once", async () => {
    const { kubelet, options, devices } = node;
    // What is done now and then anyway is never done here.
    const sleep: Clock["sleep"] = (ms, signal) =>
      ms < 10_000
        ? systemClock.sleep(ms, signal)
        : new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
    dra = await startDra({ ...options, clock: { ...systemClock, sleep } });
    kubelet.start();
    await kubelet.waitForDriver(DRIVER);
    await settles("devices are published", () => offered().length === 1);
    devices.update({ healthy: false, uplink: {} });
    await settles("no device is offered", () => offered().length === 0);
    expect(rig.server.store.all("resourceslices")).toHaveLength(1);
    await settles("kubelet knows", () => kubelet.health[0]?.health === 2);
    expect(kubelet.health[0]?.device).toEqual({ pool_name: "n1", device_name: "one" });
    devices.update({ healthy: true, uplink: {} });
    await settles("devices are published again", () => offered().length === 1);
  });

  it("offers no port that a socket of the device plugin still has", async () => {
    const { options } = node;
    const { allocations } = options.node.records;
    const ids = ["000aaaaaaaaaaaaa", "000aaaaaaaaaaaab"];
    for (const [index, id] of ids.entries()) {
      const sockets = Array.from({ length: 4 }, (_, at) => `one-0000${4 * index + at}`);
      await allocations.put({
        ...{ id, pool: "one", createdAt: 0, sequence: index },
        ownership: { owner: 107, group: 107, mode: 0o2770 },
        holder: { kind: "device-plugin", resource: "vhostuser/sockets", devices: sockets },
      });
    }
    dra = await startDra(options);
    await settles("devices are published", () => offered().length === 1);
    // Of ten ports eight are held.
    expect(offered()).toMatchObject([{ capacity: { ports: { value: "2" } } }]);
  });

  it("is off, with a line in the log, where there is no API server or token", async () => {
    const { options, top } = node;
    const { config } = options.node;
    const away = { ...config, dra: { ...config.dra, serviceAccountDirectory: top } };
    expect(await startDra({ ...options, node: { ...options.node, config: away } })).toBeUndefined();
    expect(rig.logged).toContain("error ResourceClaims are not served");
  });
});
