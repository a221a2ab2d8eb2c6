import { cp, mkdtemp, readdir, readFile, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readRecord, writeRecord } from "../files/record-file.ts";
import { type AllocationRecord, allocationRecordKind } from "./allocation-record.ts";
import { type PortRecord, portRecordKind } from "./port-record.ts";
import { newestAllocationOf, nextSequence, openRecords } from "./records.ts";

/** What earlier releases wrote, by those releases. */
const FIXTURES = resolve(import.meta.dirname, "../../test/fixtures/records");
const ALLOCATION = "4bq0w6xk2n8v1c7d";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-releases-"));
});
afterEach(() => rm(directory, { recursive: true }));

const raw = async (file: string) => JSON.parse(await readFile(join(directory, file), "utf8"));

describe("records of an earlier release", () => {
  it.each(["first", "0.1.0"])("are those of this one (%s)", async (release) => {
    await cp(join(FIXTURES, release), directory, { recursive: true });
    const { allocations, ports } = await openRecords(directory);
    expect([allocations.unreadable, ports.unreadable]).toEqual([[], []]);
    expect(newestAllocationOf("sockets-00003", allocations.list())?.id).toBe(ALLOCATION);
    const port = ports.get("c0ffee@pod37a8eec1ce1");
    expect(port).toMatchObject({ allocationId: ALLOCATION, portName: "vhu0a1b2c3d4e5", mtu: 1500 });
    expect(port?.settings).toEqual(
      release === "first" ? {} : { vlan: { mode: "access", tag: 5, trunks: [], customerVlans: [] } },
    );
  });

  it("lie under the name of this one, so that what is removed does not come back", async () => {
    await cp(join(FIXTURES, "first"), directory, { recursive: true });
    const { ports } = await openRecords(directory);
    expect(await readdir(join(directory, "ports"))).toEqual(["c0ffee@pod37a8eec1ce1.json"]);
    await ports.remove("c0ffee@pod37a8eec1ce1");
    expect((await openRecords(directory)).ports.list()).toEqual([]);
  });

  it("that an earlier release took for torn, because of what it did not know, are back", async () => {
    await cp(join(FIXTURES, "0.1.0"), directory, { recursive: true });
    const file = join(directory, "ports/c0ffee@pod37a8eec1ce1.json");
    await rename(file, `${file}.torn`);
    expect((await openRecords(directory)).ports.list()).toHaveLength(1);
    expect(await readdir(join(directory, "ports"))).toEqual(["c0ffee@pod37a8eec1ce1.json"]);
    // One whose place is taken by now is told of.
    await cp(file, `${file}.torn`);
    const { ports } = await openRecords(directory);
    expect([ports.list().length, ports.unreadable.length]).toEqual([1, 1]);
  });

  it("do not take the place of one that is there under this release's name", async () => {
    await cp(join(FIXTURES, "first"), directory, { recursive: true });
    await cp(join(FIXTURES, "0.1.0"), directory, { recursive: true });
    const { ports } = await openRecords(directory);
    expect(ports.get("c0ffee@pod37a8eec1ce1")?.ipam?.type).toBe("host-local");
    expect(ports.unreadable.map(({ file }) => file)).toEqual([
      join(directory, "ports/c0ffee.pod37a8eec1ce1.json"),
    ]);
  });

  it("stay as they are until they change, and are then written so that the release before reads them", async () => {
    await cp(join(FIXTURES, "first"), directory, { recursive: true });
    const { ports } = await openRecords(directory);
    const file = "ports/c0ffee@pod37a8eec1ce1.json";
    expect((await raw(file)).body).not.toHaveProperty("settings");
    await ports.update("c0ffee@pod37a8eec1ce1", (now) => now && { ...now, state: "detaching" });
    expect(await raw(file)).toMatchObject({ version: 1, body: { settings: {}, state: "detaching" } });
    const before = { ...portRecordKind, version: 1, migrations: [] };
    expect(await readRecord(join(directory, file), before)).toMatchObject({ kind: "good" });
  });
});

describe("record kinds", () => {
  it.each([allocationRecordKind, portRecordKind])(
    "have a step for each version, and write one that is read",
    ({ version, written, migrations }) => {
      expect(migrations).toHaveLength(version - 1);
      expect(written).toBeLessThanOrEqual(version);
    },
  );
});

describe("records of a later release", () => {
  const portFile = () => join(directory, "ports/c0ffee@pod37a8eec1ce1.json");
  const allocationFile = () => join(directory, `allocations/${ALLOCATION}.json`);

  /** As the next release would write what this one has written, with something that this one does not know. */
  async function rewritten(file: string, version: number, more: object = {}): Promise<string> {
    const { body } = JSON.parse(await readFile(file, "utf8")) as { body: object };
    await writeRecord(file, version, { ...body, ...more });
    return readFile(file, "utf8");
  }

  beforeEach(() => cp(join(FIXTURES, "0.1.0"), directory, { recursive: true }));

  it("of the version after this are read already", async () => {
    await rewritten(portFile(), portRecordKind.version);
    expect((await openRecords(directory)).ports.list()).toHaveLength(1);
  });

  it("keep what this one does not know when it changes them", async () => {
    await rewritten(portFile(), portRecordKind.version, { mood: "good" });
    const { ports } = await openRecords(directory);
    await ports.update("c0ffee@pod37a8eec1ce1", (now) => now && { ...now, state: "detaching" });
    expect((await raw("ports/c0ffee@pod37a8eec1ce1.json")).body).toMatchObject({
      mood: "good",
      state: "detaching",
    });
  });

  it("of an unknown version are told, are neither changed nor removed, and keep others from their place", async () => {
    const port = await rewritten(portFile(), portRecordKind.version + 1);
    const allocation = await rewritten(allocationFile(), allocationRecordKind.version + 1);
    const { allocations, ports } = await openRecords(directory);
    expect([...allocations.list(), ...ports.list()]).toEqual([]);
    for (const { unreadable } of [allocations, ports]) {
      expect(unreadable).toMatchObject([{ reason: expect.stringContaining("newer release") }]);
    }
    const { body } = (await raw("ports/c0ffee@pod37a8eec1ce1.json")) as { body: PortRecord };
    await expect(ports.put(body)).rejects.toMatchObject({ code: "record-unreadable" });
    await ports.remove("c0ffee@pod37a8eec1ce1");
    await allocations.remove(ALLOCATION);
    expect(await readFile(portFile(), "utf8")).toBe(port);
    expect(await readFile(allocationFile(), "utf8")).toBe(allocation);
  });

  it("ask for a setting that this one does not know: left alone, for without it the port would be another", async () => {
    const text = await rewritten(portFile(), 1, { settings: { mirrored: true } });
    const { ports } = await openRecords(directory);
    expect(ports.foreign).toHaveLength(1);
    expect(await readFile(portFile(), "utf8")).toBe(text);
  });

  it("count when it is asked which allocation of a device is the newest", async () => {
    await rewritten(allocationFile(), allocationRecordKind.version + 1);
    const { allocations } = await openRecords(directory);
    expect(nextSequence(allocations.listWithForeign())).toBe(8);
    const later: AllocationRecord = {
      ...{ id: "z".repeat(16), pool: "sockets", resource: "vhostuser/sockets", devices: ["sockets-00003"] },
      ...{ ownership: { owner: 107, group: 107, mode: 0o2770 }, createdAt: 1, sequence: 6 },
    };
    await allocations.put(later);
    expect(newestAllocationOf("sockets-00003", allocations.listWithForeign())?.id).toBe(ALLOCATION);
  });

  it("count so also where all has changed that may: what a pod holds is in use", async () => {
    const ownership = { owner: 107, group: 107, mode: 0o2770, acl: ["u:1000:rwx"] };
    const changed = {
      ownership,
      dataplane: "switch-3",
      switchSockets: {},
      socketServer: "both",
      pod: "ns/vm",
    };
    await rewritten(allocationFile(), allocationRecordKind.version + 1, changed);
    const { allocations } = await openRecords(directory);
    const [seen] = allocations.listWithForeign();
    expect(seen).toMatchObject({ id: ALLOCATION, devices: ["sockets-00003"], sequence: 7 });
    expect(seen?.ownership).toMatchObject({ owner: 107, group: 107, mode: 0o2770 });
    expect([seen?.dataplane, seen?.switchSockets, seen?.socketServer, seen?.pod]).toEqual(
      Array(4).fill(undefined),
    );
  });

  it("are known by their container and interface, whatever else a port's says and its file is called", async () => {
    const text = await rewritten(portFile(), portRecordKind.version + 1, { state: "resting", settings: 7 });
    await rename(portFile(), join(directory, "ports/c0ffee+pod37a8eec1ce1.json"));
    const { ports } = await openRecords(directory);
    expect(ports.getForeign("c0ffee@pod37a8eec1ce1")?.text).toBe(text);
  });

  it("may have bodies that tell nothing", async () => {
    await writeRecord(portFile(), 99, { all: "different" });
    const { ports } = await openRecords(directory);
    expect(ports.getForeign("c0ffee@pod37a8eec1ce1")?.foreign).toEqual({ name: "c0ffee@pod37a8eec1ce1" });
    expect(ports.listWithForeign()).toEqual([]);
  });
});
