import { lstat, mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { silentLogger } from "../logging/logger.ts";
import { newAllocationId } from "../names/allocation-id.ts";
import { deviceId } from "../names/device-id.ts";
import type { AllocationRecord } from "../records/allocation-record.ts";
import { openRecords, type Records } from "../records/records.ts";
import { rebuildAllocations } from "./restore-artefacts.ts";

let top: string;
let records: Records;
let places: { root: string; podRoot: string; deviceInfoDirectory: string };
let sequence = 0;
beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), "kvu-rebuild-"));
  places = { root: join(top, "root"), podRoot: "/var/run/vhostuser", deviceInfoDirectory: join(top, "info") };
  await mkdir(places.root);
  records = await openRecords(join(top, "records"));
});
afterEach(() => rm(top, { recursive: true }));

async function allocated(resource: string, ...devices: number[]): Promise<AllocationRecord> {
  const record: AllocationRecord = {
    id: newAllocationId(),
    pool: "sockets",
    holder: {
      kind: "device-plugin",
      resource,
      devices: devices.map((index) => deviceId("sockets", index)),
    },
    ownership: { owner: 107, group: 107, mode: 0o2770 },
    createdAt: 0,
    sequence: ++sequence,
  };
  await records.allocations.put(record);
  return record;
}

describe("rebuilding allocations", () => {
  it("makes every directory again, and the device-info of a device from its newest allocation only", async () => {
    const old = await allocated("v/old", 0, 1);
    const now = await allocated("v/new", 1);
    // More than are made before the event loop continues.
    const others = await Promise.all(Array.from({ length: 50 }, (_, index) => allocated("v/s", 2 + index)));
    await rebuildAllocations(records, places, silentLogger);
    expect((await readdir(places.root)).sort()).toEqual([old, now, ...others].map(({ id }) => id).sort());
    expect((await lstat(join(places.root, now.id, "sockets-00001"))).uid).toBe(107);
    const files = await readdir(join(places.deviceInfoDirectory, "dp"));
    expect(files).toHaveLength(52);
    expect(files).toContain("v-old-sockets-00000-device.json");
    expect(files).toContain("v-new-sockets-00001-device.json");
    expect(files).not.toContain("v-old-sockets-00001-device.json");
  });

  it("skips one that cannot be made", async () => {
    const bad = await allocated("v/s", 0);
    const good = await allocated("v/s", 1);
    await mkdir(join(top, "info/dp/v-s-sockets-00000-device.json/in-the-way"), { recursive: true });
    await rebuildAllocations(records, places, silentLogger);
    expect((await readdir(places.root)).sort()).toEqual([bad.id, good.id].sort());
    expect(await readdir(join(places.deviceInfoDirectory, "dp"))).toContain("v-s-sockets-00001-device.json");
  });

  it("ends when its signal fires, and makes the rest the next time", async () => {
    await allocated("v/s", 0);
    await expect(
      rebuildAllocations(records, places, silentLogger, AbortSignal.abort("stopped")),
    ).rejects.toBe("stopped");
    expect(await readdir(places.root)).toEqual([]);
    await rebuildAllocations(records, places, silentLogger);
    expect(await readdir(places.root)).toHaveLength(1);
  });
});
