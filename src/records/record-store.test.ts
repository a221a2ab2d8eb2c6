import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { writeRecord } from "../files/record-file.ts";
import { type AllocationRecord, allocationRecordKind } from "./allocation-record.ts";
import type { PortRecord } from "./port-record.ts";
import { RecordStore } from "./record-store.ts";
import { newestAllocationOf, nextSequence, openRecords } from "./records.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-store-"));
});
afterEach(() => rm(directory, { recursive: true }));

function allocation(letter: string, sequence: number, ...devices: string[]): AllocationRecord {
  const ownership = { owner: 107, group: 107, mode: 0o2770 };
  const id = letter.repeat(16);
  return { id, pool: "sockets", resource: "vhostuser/sockets", devices, ownership, createdAt: 1, sequence };
}

describe("record store", () => {
  it("has the same records after it is opened again", async () => {
    const store = await RecordStore.open(directory, allocationRecordKind);
    await store.put(allocation("a", 1, "sockets-00001"));
    await store.put(allocation("b", 2, "sockets-00002"));
    await store.put(allocation("b", 3, "sockets-00002"));
    await store.remove("a".repeat(16));
    await store.remove("never-there");
    const again = await RecordStore.open(directory, allocationRecordKind);
    expect(again.list()).toEqual([allocation("b", 3, "sockets-00002")]);
    expect(again.unreadable).toEqual([]);
  });

  it("keeps what a record tells of the pool's switch, of whatever kind, and takes one that tells nothing", async () => {
    const store = await RecordStore.open(directory, allocationRecordKind);
    const told: AllocationRecord = {
      ...allocation("a", 1, "sockets-00001"),
      dataplane: { type: "of-another-release", bridge: "b", where: { is: "it" } },
      switchSockets: "/run/switch",
      socketServer: "switch",
    };
    await store.put(told);
    await store.put(allocation("b", 2, "sockets-00002"));
    const again = await RecordStore.open(directory, allocationRecordKind);
    expect(again.list()).toEqual([told, allocation("b", 2, "sockets-00002")]);
  });

  it("sets a damaged record aside, uses the rest, and reports it at every start", async () => {
    const store = await RecordStore.open(directory, allocationRecordKind);
    await store.put(allocation("a", 1, "sockets-00001"));
    await writeFile(join(directory, "odd.json"), '{"version":1,');
    for (let start = 0; start < 2; start++) {
      const again = await RecordStore.open(directory, allocationRecordKind);
      expect(again.list()).toHaveLength(1);
      expect(again.unreadable.map(({ file }) => file)).toEqual([join(directory, "odd.json.damaged")]);
    }
  });

  it("is not opened with a record of a newer release, which stays as it is", async () => {
    const file = join(directory, "newer.json");
    await writeRecord(file, 99, {});
    await expect(RecordStore.open(directory, allocationRecordKind)).rejects.toMatchObject({
      code: "record-unreadable",
      message: expect.stringContaining(file),
    });
    expect(await readdir(directory)).toEqual(["newer.json"]);
  });

  it("keeps what a later release of the same version added, also when it changes the record", async () => {
    const one = { ...allocation("a", 1, "sockets-00001"), mood: "good" };
    await writeRecord(join(directory, `${one.id}.json`), 1, one);
    const store = await RecordStore.open(directory, allocationRecordKind);
    await store.update(one.id, (now) => now && { ...now, sequence: 2 });
    const again = await RecordStore.open(directory, allocationRecordKind);
    expect(again.get(one.id)).toEqual({ ...one, sequence: 2 });
  });

  it("makes changes of one record in the order in which they were asked for, each from what the one before made", async () => {
    const store = await RecordStore.open(directory, allocationRecordKind);
    const one = allocation("a", 1, "sockets-00001");
    const removed = Promise.all([store.put(one), store.remove(one.id)]);
    const left = store.update(one.id, (now) => now && { ...now, sequence: 9 });
    await Promise.all([removed, left, store.put(one)]);
    expect(await left).toBeUndefined();
    await Promise.all(
      [2, 3, 4].map(() => store.update(one.id, (now) => now && { ...now, sequence: now.sequence + 1 })),
    );
    expect(store.get(one.id)?.sequence).toBe(4);
    expect((await RecordStore.open(directory, allocationRecordKind)).get(one.id)?.sequence).toBe(4);
  });

  it("removes what a killed process left half written", async () => {
    await writeFile(join(directory, ".kube-vhostuser-123456789012"), "{");
    await RecordStore.open(directory, allocationRecordKind);
    expect(await readdir(directory)).toEqual([]);
  });

  it("does not take a record whose body is valid JSON but of another shape", async () => {
    await writeRecord(join(directory, "x.json"), 1, {
      ...allocation("a", 1, "sockets-00001"),
      id: "../../etc",
    });
    const store = await RecordStore.open(directory, allocationRecordKind);
    expect(store.list()).toEqual([]);
    expect(store.unreadable).toHaveLength(1);
  });
});

describe("allocations of a device", () => {
  it("the newest is found by its sequence, whatever the clock said", () => {
    const older = { ...allocation("a", 1, "d"), createdAt: 100 };
    const newer = { ...allocation("b", 2, "d", "e"), createdAt: 50 };
    expect(newestAllocationOf("d", [newer, older])?.id).toBe(newer.id);
    expect(newestAllocationOf("x", [newer, older])).toBeUndefined();
    expect(nextSequence([older, newer])).toBe(3);
    expect(nextSequence([])).toBe(1);
  });
});

function attachment(changes: Partial<PortRecord> = {}): PortRecord {
  return {
    ...{ containerId: "c1", interfaceName: "net1", state: "attaching", pool: "sockets", network: "net" },
    ...{ allocationId: "a".repeat(16), device: "sockets-00001", portName: "vhu0123456789ab", bridge: "br0" },
    ...{ switchSocketPath: "/s/vhost.sock", podSocketPath: "/p/vhost.sock", mac: "02:00:00:00:00:01" },
    ...{ netns: "", podNamespace: "ns", podName: "vm", podUid: "1", createdAt: 1, settings: {} },
    ...changes,
  };
}

describe("records of a node", () => {
  it("know after a restart of which pod an allocation is, by the records of its interfaces", async () => {
    const before = await openRecords(directory);
    await before.allocations.put(allocation("a", 1, "sockets-00001"));
    await before.allocations.put(allocation("b", 2, "sockets-00002"));
    await before.ports.put(attachment());
    const after = await openRecords(directory);
    expect(after.allocations.get("a".repeat(16))?.pod).toEqual({ namespace: "ns", name: "vm", uid: "1" });
    expect(after.allocations.get("b".repeat(16))?.pod).toBeUndefined();
  });
});
