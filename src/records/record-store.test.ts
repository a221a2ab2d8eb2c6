import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { changeEntries, writeJournal } from "../../test/stand-in/records/journal-files.ts";
import { silentLogger } from "../logging/logger.ts";
import {
  type AllocationRecord,
  allocationRecordKind,
  deviceNamesOf,
  pluginDevicesOf,
  resourceOf,
} from "./allocation-record.ts";
import type { PortRecord } from "./port-record.ts";
import { RecordStore } from "./record-store.ts";
import { newestAllocationOf, nextSequence, openRecords, readRecords } from "./records.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-store-"));
});
afterEach(() => rm(directory, { recursive: true }));

function allocation(letter: string, sequence: number, ...devices: string[]): AllocationRecord {
  const ownership = { owner: 107, group: 107, mode: 0o2770 };
  const id = letter.repeat(16);
  const holder = { kind: "device-plugin", resource: "vhostuser/sockets", devices } as const;
  return { id, pool: "sockets", holder, ownership, createdAt: 1, sequence };
}

const open = () => RecordStore.open(directory, allocationRecordKind, silentLogger);

describe("record store", () => {
  it("has the same records after it is opened again", async () => {
    const store = await open();
    await store.put(allocation("a", 1, "sockets-00001"));
    await store.put(allocation("b", 2, "sockets-00002"));
    await store.put(allocation("b", 3, "sockets-00002"));
    await store.remove("a".repeat(16));
    await store.remove("never-there");
    const again = await open();
    expect(again.list()).toEqual([allocation("b", 3, "sockets-00002")]);
    expect(again.unreadable).toEqual([]);
  });

  it("keeps what a record says about the pool's switch, of any kind", async () => {
    const store = await open();
    const one: AllocationRecord = {
      ...allocation("a", 1, "sockets-00001"),
      dataplane: { type: "any", bridge: "b", where: { is: "it" } },
      switchSockets: "/run/switch",
      socketServer: "switch",
    };
    await store.put(one);
    expect((await open()).list()).toEqual([one]);
  });

  it("keeps an allocation for a claim, which holds none of the device plugin's devices", async () => {
    const claim = { kind: "claim", uid: "u", request: "net", device: "one", shareID: "s" } as const;
    const one: AllocationRecord = { ...allocation("a", 1), holder: claim };
    await (await open()).put(one);
    expect((await open()).list()).toEqual([one]);
    expect([pluginDevicesOf(one), deviceNamesOf(one), resourceOf(one)]).toEqual([[], ["one"], "u/net"]);
  });

  it("uses the other records where one is damaged or invalid", async () => {
    const store = await open();
    await store.put(allocation("a", 1, "sockets-00001"));
    await store.put(allocation("b", 2, "sockets-00002"));
    await changeEntries(directory, (line) => line.replace("sockets-00002", "sockets-00003"));
    const odd = await open();
    expect(odd.list()).toEqual([allocation("a", 1, "sockets-00001")]);
    expect(odd.unreadable).toMatchObject([{ text: expect.stringContaining("sockets-00003") }]);
    await writeJournal(directory, 1, { x: { ...allocation("a", 1, "sockets-00001"), id: "../../etc" } });
    expect((await open()).list()).toEqual([]);
  });

  it("is not opened with records of a newer release", async () => {
    await writeJournal(directory, 2, { x: {} });
    await expect(open()).rejects.toMatchObject({
      code: "record-unreadable",
      message: expect.stringContaining(directory),
    });
  });

  it("keeps what a later release of the same version added, also when it changes the record", async () => {
    const one = { ...allocation("a", 1, "sockets-00001"), mood: "good" };
    await writeJournal(directory, 1, { [one.id]: one });
    await (await open()).update(one.id, (now) => now && { ...now, sequence: 2 });
    expect((await open()).get(one.id)).toEqual({ ...one, sequence: 2 });
  });

  it("applies changes to one record in the order of the calls, each to the result of the one before", async () => {
    const store = await open();
    const one = allocation("a", 1, "sockets-00001");
    const removed = Promise.all([store.put(one), store.remove(one.id)]);
    const left = store.update(one.id, (now) => now && { ...now, sequence: 9 });
    await Promise.all([removed, left, store.put(one)]);
    expect(await left).toBeUndefined();
    await Promise.all(
      [2, 3, 4].map(() => store.update(one.id, (now) => now && { ...now, sequence: now.sequence + 1 })),
    );
    expect(store.get(one.id)?.sequence).toBe(4);
    expect((await open()).get(one.id)?.sequence).toBe(4);
  });

  it("keeps a record that could not be deleted from disk, and does not list one that could not be saved", async () => {
    const store = await open();
    const [one, other] = [allocation("a", 1, "sockets-00001"), allocation("b", 2, "sockets-00002")];
    await store.put(one);
    await rm(directory, { recursive: true });
    await expect(store.put(other)).rejects.toMatchObject({ code: "record-unwritable" });
    await expect(store.remove(one.id)).rejects.toMatchObject({ code: "record-unwritable" });
    expect(store.list()).toEqual([one]);
    await open();
  });
});

describe("allocations of a device", () => {
  it("are ordered by their sequence, whatever the clock said", () => {
    const older = { ...allocation("a", 1, "d"), createdAt: 100 };
    const newer = { ...allocation("b", 2, "d", "e"), createdAt: 50 };
    expect(newestAllocationOf("d", [newer, older])?.id).toBe(newer.id);
    expect(newestAllocationOf("x", [newer, older])).toBeUndefined();
    expect(nextSequence([older, newer])).toBe(3);
    expect(nextSequence([])).toBe(1);
  });
});

const ATTACHMENT: PortRecord = {
  ...{ startedAtMs: 1, bootId: "boot", releases: [] },
  ...{ containerId: "c1", interfaceName: "net1", state: "attaching", pool: "sockets", network: "net" },
  ...{ allocationId: "a".repeat(16), device: "sockets-00001", portName: "vhu0123456789ab", bridge: "br0" },
  ...{ switchSocketPath: "/s/vhost.sock", podSocketPath: "/p/vhost.sock", mac: "02:00:00:00:00:01" },
  ...{ netns: "", podNamespace: "ns", podName: "vm", podUid: "1", createdAt: 1, settings: {} },
};

describe("records of a node", () => {
  it("give the pod of an allocation after a restart, from the records of its interfaces", async () => {
    const before = await openRecords(directory);
    await before.allocations.put(allocation("a", 1, "sockets-00001"));
    await before.allocations.put(allocation("b", 2, "sockets-00002"));
    await before.ports.put(ATTACHMENT);
    const after = await openRecords(directory);
    expect(after.allocations.get("a".repeat(16))?.pod).toEqual({ namespace: "ns", name: "vm", uid: "1" });
    expect(after.allocations.get("b".repeat(16))?.pod).toBeUndefined();
  });

  it("can be read while the daemon has them open", async () => {
    const { ports } = await openRecords(directory);
    await ports.put(ATTACHMENT);
    expect(await readRecords(directory)).toEqual({ allocations: [], ports: [ATTACHMENT], unreadable: [] });
  });
});
