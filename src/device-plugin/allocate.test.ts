import { mkdir, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextTick } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { poolsByName } from "../../test/stand-in/config/pools-by-name.ts";
import { ensureDeviceInfo, removeAllocation } from "../allocation/allocation.ts";
import { listAllocationDirectories } from "../allocation/socket-directories.ts";
import { parseConfig } from "../config/load.ts";
import type { PoolConfig } from "../config/schema.ts";
import { silentLogger } from "../logging/logger.ts";
import { pluginDevicesOf } from "../records/allocation-record.ts";
import { openRecords, type Records } from "../records/records.ts";
import { systemClock } from "../sync/clock.ts";
import { createAllocator } from "./allocate.ts";

let top: string;
let records: Records;
let places: { readonly root: string; readonly podRoot: string; readonly deviceInfoDirectory: string };
beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), "kvu-allocate-"));
  places = { root: join(top, "root"), podRoot: "/var/run/vhostuser", deviceInfoDirectory: join(top, "info") };
  await mkdir(places.root);
  records = await openRecords(join(top, "records"));
});
afterEach(() => rm(top, { recursive: true }));

const DATAPLANE = { type: "ovs-dpdk", database: "/run/x/db.sock", bridge: "br0" } as const;

function configured(keys: object): PoolConfig {
  const pool = { name: "sockets", capacity: 4, dataplane: DATAPLANE, ...keys };
  const [parsed] = parseConfig(JSON.stringify({ node: "n", pools: poolsByName(pool) }), "c.yaml").pools;
  if (parsed === undefined) throw new Error("no pool");
  return parsed;
}

const allocator = (pool: PoolConfig) =>
  createAllocator({
    ...{ pool, places, allocations: records.allocations, clock: systemClock, logger: silentLogger },
  });

const deviceInfo = async (device: string) =>
  JSON.parse(
    await readFile(join(places.deviceInfoDirectory, "dp", `vhostuser-sockets-${device}-device.json`), "utf8"),
  );

describe("an Allocate whose caller is gone", () => {
  it.each(["before it has its directories", "before its record is on disk"])(
    "%s leaves nothing",
    async (when) => {
      const gone = new AbortController();
      const end = () => gone.abort(new Error("kubelet is gone"));
      if (when.includes("record")) records.allocations.subscribe(end);
      const call = allocator(configured({}))(["sockets-00001"], gone.signal);
      if (when.includes("directories")) end();
      await expect(call).rejects.toThrow("kubelet is gone");
      expect(records.allocations.list()).toEqual([]);
      expect((await openRecords(join(top, "records"))).allocations.list()).toEqual([]);
      expect(await listAllocationDirectories(places.root)).toEqual([]);
      await expect(deviceInfo("sockets-00001")).rejects.toMatchObject({ code: "ENOENT" });
    },
  );
});

describe("an Allocate that fails", () => {
  it("at the device-info of its second device leaves none of the first", async () => {
    const inTheWay = "vhostuser-sockets-sockets-00002-device.json";
    await mkdir(join(places.deviceInfoDirectory, "dp", inTheWay), { recursive: true });
    const devices = ["sockets-00001", "sockets-00002"];
    await expect(allocator(configured({}))(devices)).rejects.toThrow("EISDIR");
    expect(records.allocations.list()).toEqual([]);
    expect(await listAllocationDirectories(places.root)).toEqual([]);
    expect(await readdir(join(places.deviceInfoDirectory, "dp"))).toEqual([inTheWay]);
  });
});

describe("an answered Allocate", () => {
  it("has its device-info file whenever the older allocation of the device is reclaimed", async () => {
    const allocate = allocator(configured({}));
    for (let ticks = 0; ticks < 60; ticks++) {
      await allocate(["sockets-00001"]);
      const [older] = records.allocations.list();
      if (older === undefined) throw new Error("no record");
      const newer = allocate(["sockets-00001"]);
      for (let tick = 0; tick < ticks; tick++) await nextTick();
      await Promise.all([newer, removeAllocation(older, records.allocations, places)]);
      expect(await deviceInfo("sockets-00001")).toMatchObject({ type: "vhost-user" });
      const [left] = records.allocations.list();
      if (left !== undefined) await removeAllocation(left, records.allocations, places);
    }
  });

  it("records the pool's switch at that time, and which side makes the sockets", async () => {
    const switchSockets = "/var/run/vhostuser/switch";
    await allocator(configured({ socketServer: "switch", switchSockets }))(["sockets-00001"]);
    await allocator(configured({ dataplane: { type: "vpp", bridge: "7" } }))(["sockets-00002"]);
    const [first, second] = (await openRecords(join(top, "records"))).allocations
      .list()
      .toSorted((one, other) => one.sequence - other.sequence);
    expect(first).toMatchObject({
      dataplane: DATAPLANE,
      switchSockets,
      socketServer: "switch",
    });
    expect(second).toMatchObject({
      dataplane: { type: "vpp", apiSocket: "/run/vpp/api.sock", bridge: "7" },
      socketServer: "guest",
    });
    expect(second).not.toHaveProperty("switchSockets");
  });

  it.each([
    [undefined, "server"],
    ["guest", "server"],
    ["switch", "client"],
  ])(
    "with %j as the server of the pool's sockets makes the container the %s, also when rebuilt",
    async (socketServer, mode) => {
      await allocator(configured(socketServer === undefined ? {} : { socketServer }))(["sockets-00001"]);
      const path = "/var/run/vhostuser/sockets/sockets-00001/vhost.sock";
      expect(await deviceInfo("sockets-00001")).toMatchObject({ "vhost-user": { mode, path } });
      await rm(places.deviceInfoDirectory, { recursive: true });
      const [record] = (await openRecords(join(top, "records"))).allocations.list();
      if (record !== undefined) ensureDeviceInfo(record, pluginDevicesOf(record), places);
      expect(await deviceInfo("sockets-00001")).toMatchObject({ "vhost-user": { mode } });
    },
  );
});
