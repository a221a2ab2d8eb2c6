import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ApiRig, startApiRig } from "../../test/stand-in/api-server/api-rig.ts";
import type { SliceDevice, SliceSpec } from "./inventory.ts";
import { SlicePublisher } from "./resource-slices.ts";

let rig: ApiRig;
let publisher: SlicePublisher | undefined;
/** What the node offers: names of devices. */
let offered: readonly string[];
let nodeUid: string;

beforeEach(async () => {
  rig = await startApiRig();
  nodeUid = rig.server.store.create("nodes", { metadata: { name: "worker.1" } }).metadata.uid;
  offered = ["red"];
});
afterEach(async () => {
  await publisher?.close();
  publisher = undefined;
  await rig.close();
});

const device = (name: string, isShared: boolean): SliceDevice => ({
  ...{ name, attributes: { bridge: { string: "br0" } } },
  ...(isShared ? { allowMultipleAllocations: true, capacity: { ports: { value: "1000" } } } : {}),
});
function start(): SlicePublisher {
  publisher = new SlicePublisher({
    ...{ api: rig.client, node: "worker.1", clock: rig.clock, logger: rig.logger },
    devices: (isShared) =>
      offered
        .flatMap((name) => (isShared ? [name] : [`${name}--0`, `${name}--1`]))
        .map((name) => device(name, isShared)),
  });
  return publisher;
}
const slices = () => rig.server.store.all("resourceslices");
const specs = () => slices().map(({ spec }) => spec as unknown as SliceSpec);
const published = () => specs().map(({ devices = [] }) => devices.map(({ name }) => name).join());
const pools = () => specs().map(({ pool }) => `${pool.generation} ${pool.resourceSliceCount}`);
const isPublished = (...expected: string[]) =>
  rig.until(() => published().join(";") === expected.join(";"), 100);
/** All that follows from what was done so far is done. */
async function settled(): Promise<void> {
  for (let before = -1; before !== rig.server.answers.length; ) {
    before = rig.server.answers.length;
    for (let step = 0; step < 200; step++) await rig.clock.advance(500);
  }
}

describe("slices of a node", () => {
  it("are published with the node as their owner", async () => {
    start();
    await isPublished("red");
    expect(slices()[0]).toMatchObject({
      metadata: {
        name: "worker.1-vhostuser.kube-vhostuser.io-00000",
        ownerReferences: [
          { apiVersion: "v1", kind: "Node", name: "worker.1", uid: nodeUid, controller: true },
        ],
      },
      spec: {
        ...{ driver: "vhostuser.kube-vhostuser.io", nodeName: "worker.1" },
        pool: { name: "worker.1", generation: 1, resourceSliceCount: 1 },
      },
    });
  });

  it("are not written again while nothing changes, also by the next daemon and where the server rewrites a value", async () => {
    start();
    await isPublished("red");
    await settled();
    const writes = () => rig.server.answers.filter((one) => /^(POST|PUT|DELETE)/.test(one));
    // The dry run, and the slice.
    expect(writes()).toEqual(["POST 201", "POST 201"]);
    await publisher?.close();
    offered = [];
    start();
    await isPublished("");
    offered = ["red"];
    publisher?.changed();
    await isPublished("red");
    expect(pools()).toEqual(["1 1"]);
  });

  it("come back when kubelet deletes them", async () => {
    start();
    await isPublished("red");
    for (const slice of slices()) rig.server.store.remove("resourceslices", slice.metadata.name, {});
    expect(published()).toEqual([]);
    await isPublished("red");
  });

  it("are as they should be after another program changed them", async () => {
    start();
    await isPublished("red");
    const [slice] = slices();
    if (slice === undefined) throw new Error("one slice");
    const spec = { ...(slice["spec"] as object), devices: [{ name: "wrong" }] };
    rig.server.store.update("resourceslices", slice.metadata.name, { ...slice, spec });
    await isPublished("red");
  });

  it("are empty, not gone, while there is no device", async () => {
    start();
    await isPublished("red");
    offered = [];
    publisher?.changed();
    await isPublished("");
    expect(pools()).toEqual(["1 1"]);
  });

  it("get the next generation, all of them, where more than one is touched", async () => {
    offered = Array.from({ length: 130 }, (_, index) => `pool-${index}`);
    start();
    await rig.until(() => slices().length === 2, 100);
    expect(pools()).toEqual(["1 2", "1 2"]);
    offered = offered.with(0, "changed");
    publisher?.changed();
    await rig.until(() => published()[0]?.startsWith("changed") === true, 100);
    expect(pools()).toEqual(["1 2", "1 2"]);
    offered = offered.slice(2);
    publisher?.changed();
    await rig.until(() => pools().join() === "2 1", 100);
    expect(published()).toEqual([offered.join()]);
  });

  it("come back without a warning where they were deleted while the watch was interrupted", async () => {
    start();
    await isPublished("red");
    await rig.until(() => rig.server.watches.length === 1);
    rig.server.endWatches("cut");
    await rig.until(() => rig.server.watches.length === 0);
    for (const slice of slices()) rig.server.store.remove("resourceslices", slice.metadata.name, {});
    offered = ["blue"];
    publisher?.changed();
    await rig.until(() => rig.server.answers.includes("PUT 404"));
    await isPublished("blue");
    expect(rig.logged.filter((line) => line.startsWith("warn"))).toEqual([]);
  });

  it("are written once for what happens within a moment", async () => {
    offered = Array.from({ length: 300 }, (_, index) => `pool-${index}`);
    start();
    await rig.until(() => pools().length === 3, 100);
    await settled();
    for (const slice of slices()) rig.server.store.remove("resourceslices", slice.metadata.name, {});
    await rig.until(() => pools().length === 3, 100);
    await settled();
    expect(pools()).toEqual(["1 3", "1 3", "1 3"]);
  });

  it("never touch those of another node or driver", async () => {
    const pool = { name: "other", generation: 1, resourceSliceCount: 1 };
    const others = [
      { driver: "vhostuser.kube-vhostuser.io", nodeName: "worker.2", pool },
      { driver: "other.example", nodeName: "worker.1", pool },
    ].map((spec, index) =>
      rig.server.store.create("resourceslices", { metadata: { name: `s-${index}` }, spec }),
    );
    start();
    await rig.until(() => slices().length === 3, 100);
    await settled();
    for (const other of others)
      expect(rig.server.store.get("resourceslices", other.metadata.name)).toEqual(other);
  });

  it("replace what an earlier release published under other names", async () => {
    const pool = { name: "worker.1", generation: 7, resourceSliceCount: 1 };
    const spec = { driver: "vhostuser.kube-vhostuser.io", nodeName: "worker.1", pool };
    rig.server.store.create("resourceslices", { metadata: { name: "old" }, spec });
    start();
    await isPublished("red");
    expect(pools()).toEqual(["8 1"]);
  });

  it("survive the end of the daemon", async () => {
    start();
    await isPublished("red");
    await publisher?.close();
    publisher = undefined;
    expect(published()).toEqual(["red"]);
  });

  it("have one device for each socket where the cluster cannot share devices, and the log says so once", async () => {
    rig.server.canShareDevices = false;
    start();
    await isPublished("red--0,red--1");
    offered = ["red", "blue"];
    publisher?.changed();
    await isPublished("red--0,red--1,blue--0,blue--1");
    expect(pools()).toEqual(["1 1"]);
    expect(rig.logged.filter((line) => /^warn .*cannot share/.test(line))).toHaveLength(1);
  });

  it("have one device for each socket too where only another API server cannot share devices", async () => {
    start();
    await isPublished("red");
    rig.server.canShareDevices = false;
    offered = ["blue"];
    publisher?.changed();
    await isPublished("blue--0,blue--1");
    await settled();
    expect(published()).toEqual(["blue--0,blue--1"]);
  });

  it("are published when the API server is back, and the log says once that it was not there", async () => {
    const ill = () => ({ kind: "status", status: 503 }) as const;
    rig.server.illnesses.push(ill(), ill(), ill());
    start();
    await isPublished("red");
    expect(rig.logged.filter((line) => line.startsWith("warn"))).toEqual([
      "warn ResourceSlices cannot be published",
    ]);
  });

  it("are published when a right that was missing is given", async () => {
    rig.server.verbs.delete("create");
    start();
    await rig.until(() => rig.server.answers.includes("POST 403"), 100);
    rig.server.verbs.add("create");
    await isPublished("red");
  });

  it("belong to the node of today, where it was created again", async () => {
    start();
    await isPublished("red");
    const node = rig.server.store.get("nodes", "worker.1");
    rig.server.store.remove("nodes", "worker.1", {});
    const { uid } = rig.server.store.create("nodes", { metadata: { name: "worker.1" } }).metadata;
    expect(uid).not.toBe(node.metadata.uid);
    for (const slice of slices()) rig.server.store.remove("resourceslices", slice.metadata.name, {});
    await isPublished("red");
    expect(slices()[0]?.metadata["ownerReferences"]).toMatchObject([{ uid }]);
  });
});
