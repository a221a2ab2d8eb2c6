import { mkdtemp, open as openFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
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
import { newestAllocationOf, openRecords, readRecords, takeSequences } from "./records.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-store-"));
});
afterEach(async () => {
  vi.restoreAllMocks();
  await rm(directory, { recursive: true });
});

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
    const claim = { kind: "claim", uid: "u", namespace: "ns", name: "c", podClaimName: "vm" } as const;
    const result = {
      request: "net",
      subrequest: "sub",
      index: 2,
      slicePool: "n1",
      device: "one",
      shareID: "s",
    };
    const pod = { namespace: "ns", name: "p", uid: "pu" };
    const port = { bridge: "br0", mac: "02:00:00:00:00:01", mtu: 9000, settings: {}, isAddressed: true };
    const one: AllocationRecord = {
      ...allocation("a", 1),
      holder: { ...claim, ...result, pod, port, released: true },
    };
    await (await open()).put(one);
    expect((await open()).list()).toEqual([one]);
    expect([pluginDevicesOf(one), deviceNamesOf(one), resourceOf(one)]).toEqual([[], ["net.2"], "u/net"]);
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

  it("loses no change that the disk refused or that is in memory alone to one that is being written", async () => {
    const store = await open();
    const one = allocation("a", 1, "sockets-00001");
    await store.put(one);
    const file = await openFile(join(directory, "journal"));
    await file.close();
    vi.spyOn(Object.getPrototypeOf(file) as typeof file, "datasync").mockRejectedValueOnce(
      new Error("ENOSPC"),
    );
    const refused = store.update(one.id, (now) => now && { ...now, sequence: 2 }, "keep in memory");
    const written = store.update(one.id, (now) => now && { ...now, createdAt: 3 });
    store.updateInMemory(one.id, (now) => ({ ...now, pod: { namespace: "ns", name: "vm", uid: "1" } }));
    await Promise.all([refused, written, store.update(one.id, () => undefined)]);
    const pod = { namespace: "ns", name: "vm", uid: "1" };
    expect(store.get(one.id)).toEqual({ ...one, sequence: 2, createdAt: 3, pod });
    expect((await open()).get(one.id)).toEqual({ ...one, sequence: 2, createdAt: 3 });
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
  });

  it("get sequences above all that are recorded or were taken", async () => {
    const store = await open();
    expect(takeSequences(store)).toBe(1);
    await store.put(allocation("a", 7, "sockets-00001"));
    const reopened = await open();
    expect([takeSequences(reopened, 3), takeSequences(reopened)]).toEqual([8, 11]);
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
