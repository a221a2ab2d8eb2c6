import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { type PortRecord, portRecordKind, portRecordName } from "./port-record.ts";
import { PortsByAllocation } from "./ports-by-allocation.ts";
import { RecordStore } from "./record-store.ts";

let directory: string;
let ports: RecordStore<PortRecord>;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-ports-"));
  ports = await RecordStore.open(directory, portRecordKind);
});
afterEach(() => rm(directory, { recursive: true }));

const port = (containerId: string, allocationLetter: string, interfaceName = "net1"): PortRecord => ({
  ...{ containerId, interfaceName, allocationId: allocationLetter.repeat(16) },
  ...{ state: "attached", device: "sockets-00001", pool: "sockets", portName: "p", bridge: "br0" },
  ...{ switchSocketPath: "/s", podSocketPath: "/p", mac: "02:00:00:00:00:01", network: "n", netns: "/n" },
  ...{ podNamespace: "ns", podName: "pod", podUid: "u", createdAt: 1, settings: {} },
});

it("an index of the ports by their allocation follows the records from its beginning on", async () => {
  await ports.put(port("c1", "a"));
  const index = new PortsByAllocation(ports);
  const names = (letter: string) =>
    index.of(letter.repeat(16)).map((each) => `${each.containerId}@${each.interfaceName}`);
  await ports.put(port("c1", "a", "net2"));
  await ports.put(port("c2", "b"));
  expect([names("a"), names("b"), names("c")]).toEqual([["c1@net1", "c1@net2"], ["c2@net1"], []]);
  // The same attachment on another allocation, and one that only changed.
  await ports.put(port("c1", "b"));
  await ports.put({ ...port("c1", "a", "net2"), state: "detaching" });
  expect([names("a"), names("b")]).toEqual([["c1@net2"], ["c2@net1", "c1@net1"]]);
  expect(index.of("a".repeat(16))[0]?.state).toBe("detaching");
  for (const [container, name] of [
    ["c1", "net1"],
    ["c1", "net2"],
    ["c2", "net1"],
  ] as const) {
    await ports.remove(portRecordName(container, name));
  }
  expect([names("a"), names("b")]).toEqual([[], []]);
});
