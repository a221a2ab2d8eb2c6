import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { poolsByName } from "../../test/stand-in/config/pools-by-name.ts";
import { MemoryDataplane } from "../../test/stand-in/dataplane/memory-dataplane.ts";
import { unobserved } from "../../test/stand-in/reconcile/unobserved.ts";
import { parseConfig } from "../config/load.ts";
import { silentLogger } from "../logging/logger.ts";
import { newAllocationId } from "../names/allocation-id.ts";
import { Pools } from "../pools/pools.ts";
import { type AllocationRecord, deviceNamesOf } from "../records/allocation-record.ts";
import { openRecords, type Records } from "../records/records.ts";
import { KeyedMutex } from "../sync/keyed-mutex.ts";
import { rebuildAllocations, restoreArtefacts } from "./restore-artefacts.ts";

const NOW = 10_000_000;

let top: string;
let records: Records;
let places: { root: string; podRoot: string; deviceInfoDirectory: string };
let repaired: string[];
let failed: unknown[];

beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), "kvu-restore-"));
  places = { root: join(top, "root"), podRoot: "/var/run/vhostuser", deviceInfoDirectory: join(top, "info") };
  await mkdir(places.root);
  records = await openRecords(join(top, "records"));
  repaired = [];
  failed = [];
});
afterEach(() => rm(top, { recursive: true }));

async function allocated(sequence: number, device: string, createdAt = 1): Promise<AllocationRecord> {
  const record: AllocationRecord = {
    id: newAllocationId(),
    pool: "sockets",
    holder: { kind: "device-plugin", resource: "v/s", devices: [device] },
    ownership: { owner: 107, group: 107, mode: 0o2770 },
    createdAt,
    sequence,
  };
  await records.allocations.put(record);
  return record;
}

function restore(): Promise<boolean> {
  const pool = {
    name: "sockets",
    resource: "v/s",
    capacity: 9,
    dataplane: { type: "ovs-dpdk", bridge: "b" },
  };
  const config = parseConfig(JSON.stringify({ node: "n", pools: poolsByName(pool) }), "test");
  const observer = {
    ...unobserved,
    repaired: (kind: string) => repaired.push(kind),
    itemFailed: (error: unknown) => failed.push(error),
  };
  return restoreArtefacts(
    {
      context: {
        config,
        records,
        pools: new Pools({
          pools: [],
          allocations: records.allocations,
          open: () => new MemoryDataplane(),
          logger: silentLogger,
        }),
      },
      places,
      locks: new KeyedMutex(),
      logger: silentLogger,
      observer,
      stop: new AbortController().signal,
    },
    { now: () => NOW, monotonic: () => NOW, sleep: async () => undefined },
  );
}

const infoFile = (device: string) => join(places.deviceInfoDirectory, "dp", `v-s-${device}-device.json`);
const directory = (record: AllocationRecord) => join(places.root, record.id, deviceNamesOf(record)[0] ?? "");

describe("restoring what others removed or changed", () => {
  it("finds nothing to do where nothing changed", async () => {
    for (let index = 0; index < 120; index++) await allocated(index, `sockets-00${100 + index}`);
    await rebuildAllocations(records, places, silentLogger);
    await restore();
    expect([repaired, failed]).toEqual([[], []]);
  });

  it("rewrites missing or changed device-info, of a device's newest allocation", async () => {
    await allocated(1, "sockets-00001");
    await allocated(2, "sockets-00001");
    await allocated(3, "sockets-00002");
    await rebuildAllocations(records, places, silentLogger);
    const before = await readFile(infoFile("sockets-00001"), "utf8");
    await rm(infoFile("sockets-00001"));
    await rm(infoFile("sockets-00002"));
    await writeFile(infoFile("sockets-00002"), "{}");
    await restore();
    expect(repaired).toEqual(["device-info", "device-info"]);
    expect(await readFile(infoFile("sockets-00001"), "utf8")).toBe(before);
    expect(await readFile(infoFile("sockets-00002"), "utf8")).toContain("sockets-00002/vhost.sock");
    await restore();
    expect(repaired).toHaveLength(2);
  });

  it("makes missing directories, and repairs changed ones", async () => {
    const [gone, opened] = [await allocated(1, "sockets-00001"), await allocated(2, "sockets-00002")];
    await rebuildAllocations(records, places, silentLogger);
    await rm(join(places.root, gone.id), { recursive: true });
    await chmod(directory(opened), 0o777);
    await restore();
    expect(repaired).toEqual(["directory", "directory"]);
    for (const one of [gone, opened]) expect((await stat(directory(one))).mode & 0o7777).toBe(0o2770);
  });

  it("leaves an Allocate alone that may be in progress", async () => {
    await allocated(1, "sockets-00001", NOW - 1000);
    await restore();
    expect(repaired).toEqual([]);
    expect(await readdir(places.root)).toEqual([]);
  });

  it("reports one that cannot be restored, and continues with the others", async () => {
    await allocated(1, "sockets-00001");
    await allocated(2, "sockets-00002");
    await rebuildAllocations(records, places, silentLogger);
    for (const device of ["sockets-00001", "sockets-00002"]) await rm(infoFile(device));
    await mkdir(join(infoFile("sockets-00001"), "in-the-way"), { recursive: true });
    await restore();
    expect(failed).toHaveLength(1);
    expect(repaired).toEqual(["device-info"]);
  });
});
