import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ApiRig } from "../../test/stand-in/api-server/api-rig.ts";
import type { IpamCluster } from "../../test/stand-in/ipam/cluster.ts";
import { ControllerRig } from "../../test/stand-in/ipam/controller-rig.ts";
import type { IpamController } from "./controller.ts";

let all: ControllerRig;
let rig: ApiRig;
let cluster: IpamCluster;
let controller: IpamController;

beforeEach(async () => {
  all = await ControllerRig.open();
  ({ rig, cluster } = all);
});
afterEach(() => all.close());

const start = () => all.start();
const look = (by = controller) => all.look(by);
const looks = (...seconds: readonly number[]) => all.looks(controller, ...seconds);
const Q = "default.10-0-0-0.28 Quarantined";
const BOUND = "default.10-0-0-0.28 Bound";

describe("a block of a node that is gone", () => {
  beforeEach(async () => {
    cluster.pool("blue", ["10.0.0.0/24"], { cooldownSeconds: 300 });
    cluster.node("n1");
    cluster.block("10.0.0.0/28", "n1");
    controller = await start();
  });

  it("is quarantined at the second look, and deleted when it has rested for the pool's cooldown", async () => {
    cluster.remove("nodes", "n1");
    await looks(59);
    expect(cluster.blocks).toEqual([BOUND]);
    await looks(1);
    expect(cluster.blocks).toEqual([Q]);
    expect(all.posted).toMatchObject([
      { reason: "AddressBlockQuarantined", regarding: { kind: "AddressBlock", name: "default.10-0-0-0.28" } },
    ]);
    await looks(60, 239);
    expect(cluster.blocks).toEqual([Q]);
    await looks(1);
    expect(cluster.blocks).toEqual([]);
    expect(controller.counts).toMatchObject({ blocksQuarantined: 1, blocksDeleted: 1, passesFailed: 0 });
  });

  it("is kept while the node is there, however unready it is", async () => {
    rig.server.store.merge(
      "nodes",
      "n1",
      { status: { conditions: [{ type: "Ready", status: "Unknown" }] } },
      "status",
    );
    await looks(60, 600, 6_000);
    expect(cluster.blocks).toEqual([BOUND]);
  });

  it("is reclaimed where the node is tainted as out of service, and kept where that is taken back", async () => {
    cluster.taint("n1", true);
    await looks(30);
    cluster.taint("n1", false);
    await looks(60);
    cluster.taint("n1", true);
    await looks(59);
    expect(cluster.blocks).toEqual([BOUND]);
    await looks(1);
    expect(cluster.blocks).toEqual([Q]);
    // It comes back: its agent decides what becomes of the block.
    cluster.taint("n1", false);
    await looks(300, 300, 300);
    expect(cluster.blocks).toEqual([Q]);
  });

  it("is kept while the node has pods that may use its addresses, whatever their phase", async () => {
    cluster.pod("vm", { node: "n1" });
    rig.server.store.merge("tenant/pods", "vm", { status: { phase: "Failed" } }, "status");
    cluster.remove("nodes", "n1");
    await looks(60, 600);
    expect(cluster.blocks).toEqual([BOUND]);
    cluster.remove("tenant/pods", "vm");
    await looks(60);
    expect(cluster.blocks).toEqual([Q]);
  });

  it("is reclaimed although a pod of the host's network stays on the node, which has no address of ours", async () => {
    cluster.pod("kube-proxy", { node: "n1", hostNetwork: true });
    cluster.taint("n1", true);
    await looks(60);
    expect(cluster.blocks).toEqual([Q]);
  });

  it("is reclaimed where another node has the name, when the pods of the first look are gone", async () => {
    cluster.pod("old", { node: "n1" });
    cluster.remove("nodes", "n1");
    cluster.node("n1");
    cluster.block("10.0.0.16/28", "n1");
    await looks();
    cluster.pod("new", { node: "n1" });
    await looks(60, 60);
    expect(cluster.blocks).toEqual([BOUND, "default.10-0-0-16.28 Bound"]);
    cluster.remove("tenant/pods", "old");
    await looks(60);
    expect(cluster.blocks).toEqual([Q, "default.10-0-0-16.28 Bound"]);
  });

  it.each([
    ["the node cannot be read", 0],
    ["its pods cannot be listed", 1],
    ["the block cannot be read", 2],
  ])("is in use where %s: an error is not an answer", async (_, request) => {
    cluster.remove("nodes", "n1");
    await looks(30);
    await rig.clock.advance(30_000);
    rig.server.illnesses.push(...Array(request).fill(undefined), { kind: "status", status: 500 });
    await look();
    expect(cluster.blocks).toEqual([BOUND]);
    expect(controller.counts).toMatchObject({ passesFailed: 1, passesOk: 2 });
    await looks(59);
    expect(cluster.blocks).toEqual([BOUND]);
    await looks(1);
    expect(cluster.blocks).toEqual([Q]);
  });

  it("is in use where its agent still writes to it", async () => {
    cluster.remove("nodes", "n1");
    await looks(50);
    rig.server.store.merge("addressblocks", "default.10-0-0-0.28", { status: { used: 3 } }, "status");
    await looks(50);
    expect(cluster.blocks).toEqual([BOUND]);
  });

  it("is not changed by a controller whose watch is behind", async () => {
    cluster.remove("nodes", "n1");
    await looks(30);
    rig.server.endWatches("cut");
    rig.server.store.merge("addressblocks", "default.10-0-0-0.28", { status: { used: 3 } }, "status");
    rig.server.verbs.delete("watch");
    await rig.clock.advance(30_000);
    await controller.pass(all.signal);
    expect(cluster.blocks).toEqual([BOUND]);
    expect(rig.server.answers.at(-1)).toBe("GET 200");
  });

  it("is quarantined once and deleted once by two controllers that both lead", async () => {
    const other = await start();
    cluster.remove("nodes", "n1");
    await Promise.all([look(), look(other)]);
    await rig.clock.advance(60_000);
    const answers = rig.server.answers.length;
    await Promise.all([controller.pass(all.signal), other.pass(all.signal)]);
    expect(cluster.blocks).toEqual([Q]);
    expect(rig.server.answers.slice(answers).filter((one) => one === "PUT 200")).toHaveLength(1);
    await Promise.all([look(), look(other)]);
    await rig.clock.advance(300_000);
    await Promise.all([controller.pass(all.signal), other.pass(all.signal)]);
    expect(cluster.blocks).toEqual([]);
    const counts = [controller, other].map(({ counts: one }) => one);
    expect(counts.reduce((sum, { blocksQuarantined }) => sum + blocksQuarantined, 0)).toBe(1);
    expect(counts.reduce((sum, { passesFailed }) => sum + passesFailed, 0)).toBe(0);
  });
});

describe("an address of a shared block", () => {
  const POOL = { mode: "PerAddress", cooldownSeconds: 90 };
  beforeEach(async () => {
    cluster.pool("blue", ["10.0.0.0/24"], POOL);
    cluster.node("n1");
    cluster.blockOf("10.0.0.0/28", { kind: "Shared" });
  });

  it("is freed when its pod and its node are gone at two looks, and its pool's cooldown is over", async () => {
    const pod = cluster.pod("vm", { node: "n1" });
    cluster.pod("other", { node: "n2" });
    cluster.allocation("10.0.0.5", pod, { node: "n1" });
    controller = await start();
    cluster.remove("tenant/pods", "vm");
    await looks(90);
    // Its agent frees it while the node is there.
    expect(cluster.allocations).toHaveLength(1);
    cluster.remove("nodes", "n1");
    await looks(89);
    expect(cluster.allocations).toHaveLength(1);
    await looks(1);
    expect(cluster.allocations).toEqual([]);
    expect(controller.counts.allocationsFreed).toBe(1);
  });

  it("is kept for its key where it is sticky", async () => {
    const pod = cluster.pod("vm", { node: "n1" });
    const name = cluster.allocation("10.0.0.5", pod, { node: "n1", key: "a" });
    controller = await start();
    cluster.remove("tenant/pods", "vm");
    cluster.remove("nodes", "n1");
    await looks(90);
    expect(rig.server.store.get("addressallocations", name)["spec"]).toEqual({
      ...{ space: "default", pool: "blue", address: "10.0.0.5", key: "a" },
    });
    await looks(90, 90);
    expect(cluster.allocations).toEqual([name]);
  });

  it("is kept for a pod of its name with its uid, and freed where the pod of the name is another", async () => {
    const pod = cluster.pod("vm", { node: "n1" });
    cluster.allocation("10.0.0.5", pod, { node: "n1" });
    cluster.remove("nodes", "n1");
    controller = await start();
    await looks(90, 90);
    expect(cluster.allocations).toHaveLength(1);
    cluster.remove("tenant/pods", "vm");
    cluster.pod("vm", { node: "n2" });
    await looks(90);
    expect(cluster.allocations).toEqual([]);
  });

  it("is kept where the kind of its owner is not known, and in a block of another IPAM", async () => {
    cluster.blockOf("10.0.0.16/28", { kind: "Foreign" });
    const pod = cluster.pod("vm", { node: "n1" });
    cluster.allocation("10.0.0.17", pod, { node: "n1" });
    const other = cluster.allocation("10.0.0.5", pod, { node: "n1" });
    rig.server.store.merge("addressallocations", other, { spec: { owner: { kind: "Later" } } });
    cluster.remove("tenant/pods", "vm");
    cluster.remove("nodes", "n1");
    controller = await start();
    await looks(90, 90);
    expect(cluster.allocations).toHaveLength(2);
  });
});
