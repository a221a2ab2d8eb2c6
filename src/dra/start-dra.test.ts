import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { waitUntil } from "../../test/machine/wait-until.ts";
import { type ApiRig, startApiRig } from "../../test/stand-in/api-server/api-rig.ts";
import type { Json } from "../../test/stand-in/api-server/object-store.ts";
import { IpamPlugin } from "../../test/stand-in/cni/ipam-plugin.ts";
import { poolsByName } from "../../test/stand-in/config/pools-by-name.ts";
import { MemoryDataplane } from "../../test/stand-in/dataplane/memory-dataplane.ts";
import { claimObject, DRIVER, portParameters } from "../../test/stand-in/dra/claim-object.ts";
import { StandInDraManager } from "../../test/stand-in/kubelet/dra-manager.ts";
import { parseConfig } from "../config/load.ts";
import { PoolDevices } from "../device-plugin/pool-devices.ts";
import { DeviceUses } from "../pools/capacity.ts";
import { Pools } from "../pools/pools.ts";
import { openRecords } from "../records/records.ts";
import { type Clock, systemClock } from "../sync/clock.ts";
import { KeyedMutex } from "../sync/keyed-mutex.ts";
import { type RunningDra, type StartDraOptions, startDra } from "./start-dra.ts";

let top: string;
let rig: ApiRig;
let kubelet: StandInDraManager;
let devices: PoolDevices;
let options: StartDraOptions;
let dra: RunningDra | undefined;
let calls: string[];

beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), "dra-"));
  for (const name of ["run", "r"]) await mkdir(join(top, name));
  rig = await startApiRig();
  rig.server.store.create("nodes", { metadata: { name: "n1" } });
  kubelet = new StandInDraManager(join(top, "r"));
  calls = [];
  const config = parseConfig(
    JSON.stringify({
      ...{ node: "n1", root: join(top, "run"), recordsDirectory: join(top, "records") },
      deviceInfoDirectory: join(top, "devinfo"),
      kubelet: { plugins: join(top, "p"), pluginsRegistry: join(top, "r") },
      dra: {
        ...{ enabled: true, cdiDirectory: join(top, "cdi"), apiServer: rig.server.url },
        ipamPlugins: join(top, "plugins"),
        serviceAccountDirectory: rig.serviceAccountDirectory,
      },
      pools: poolsByName({
        ...{ name: "one", capacity: 10, claims: { ports: 4 } },
        dataplane: { type: "ovs-dpdk", bridge: "br0" },
      }),
    }),
    "test",
  );
  const records = await openRecords(config.recordsDirectory);
  const pools = new Pools({
    ...{ pools: config.pools, allocations: records.allocations, logger: rig.logger },
    open: () => new MemoryDataplane(),
  });
  const pool = pools.configured.get("one");
  if (pool === undefined) throw new Error("one pool");
  const uses = new DeviceUses(records.allocations);
  devices = new PoolDevices(pool.config, uses);
  devices.update({
    healthy: true,
    uplink: { numaNode: 1, pciAddress: "0000:3b:00.1", pcieRoot: "pci0000:3a" },
  });
  options = {
    ...{ node: { config, records, pools }, locks: new KeyedMutex(), pools: [{ pool, devices }], uses },
    observe: ({ prepare, unprepare }) => ({
      prepare: (claim, signal) => {
        calls.push(`prepare ${claim.name}`);
        return prepare(claim, signal);
      },
      unprepare,
    }),
    ...{ apiServer: undefined, podUid: "pod-uid", clock: systemClock, logger: rig.logger },
  };
});
afterEach(async () => {
  await kubelet.stop();
  await dra?.close();
  dra = undefined;
  await rig.close();
  await rm(top, { recursive: true });
});

const offered = () =>
  rig.server.store.all("resourceslices").flatMap(({ spec }) => ((spec as Json)["devices"] ?? []) as Json[]);
const settles = (what: string, isSo: () => boolean) => waitUntil(isSo, { what });

describe("the driver", () => {
  it("offers the ports of claims, prepares a claim of one and writes its status", async () => {
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
    const { node } = options;
    const config = { ...node.config, dra: { ...node.config.dra, serviceAccountDirectory: top } };
    expect(await startDra({ ...options, node: { ...node, config } })).toBeUndefined();
    expect(rig.logged).toContain("error ResourceClaims are not served");
  });
});
