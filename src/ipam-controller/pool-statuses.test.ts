import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ApiRig } from "../../test/stand-in/api-server/api-rig.ts";
import type { Json } from "../../test/stand-in/api-server/object-store.ts";
import type { IpamCluster } from "../../test/stand-in/ipam/cluster.ts";
import { ControllerRig } from "../../test/stand-in/ipam/controller-rig.ts";
import type { PoolStatus } from "../address-objects/address-pool.ts";
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

const start = async () => {
  controller = await all.start();
};
const count = () => all.count(controller);
const status = (pool: string) =>
  rig.server.store.get("addresspools", pool)["status"] as unknown as PoolStatus;
const counts = (pool: string) => {
  const { conditions: _, ...numbers } = status(pool);
  return numbers;
};
const conditions = (pool: string) =>
  status(pool).conditions.map(({ type, status: is, reason }) => `${type} ${is} ${reason}`);
const message = (pool: string, wanted: string) =>
  status(pool).conditions.find(({ type }) => type === wanted)?.message;
const writes = () => rig.server.answers.filter((one) => one === "PUT 200").length;
const FINE = ["Ready True Valid", "NearlyFull False EnoughLeft", "Exhausted False EnoughLeft"];

describe("the status of a pool", () => {
  it("has its addresses, those in blocks, those that are used, and the blocks", async () => {
    cluster.pool("blue", ["10.0.0.0/24"]);
    for (const node of ["n1", "n2"]) cluster.node(node);
    // Without the network's address.
    cluster.block("10.0.0.0/28", "n1", 3);
    cluster.block("10.0.0.16/28", "n2");
    const pod = cluster.pod("vm", { node: "n1" });
    cluster.blockOf("10.0.0.32/28", { kind: "Shared" });
    cluster.allocation("10.0.0.33", pod);
    cluster.blockOf("10.9.0.0/28", { kind: "Shared" });
    await start();
    await count();
    expect(counts("blue")).toEqual({ total: 254, inBlocks: 47, used: 4, free: 250, blocks: 3 });
    expect(conditions("blue")).toEqual([...FINE, "Overlapping False NoOverlap"]);
    expect(status("blue").conditions[0]).toMatchObject({
      ...{ lastTransitionTime: "2026-01-01T00:00:00Z", observedGeneration: 1 },
    });
    expect(all.posted).toEqual([]);
  });

  it("is written at most every 30 s, and not where nothing has changed", async () => {
    cluster.pool("blue", ["10.0.0.0/24"]);
    cluster.node("n1");
    const block = cluster.block("10.0.0.0/28", "n1", 1);
    await start();
    await count();
    for (const used of [2, 3, 4]) {
      rig.server.store.merge("addressblocks", block, { status: { used } }, "status");
      await count();
    }
    expect([writes(), counts("blue").used]).toEqual([1, 1]);
    await rig.clock.advance(29_999);
    await count();
    expect(writes()).toBe(1);
    await rig.clock.advance(1);
    await count();
    expect([writes(), counts("blue").used]).toEqual([2, 4]);
    await rig.clock.advance(600_000);
    await count();
    expect(writes()).toBe(2);
  });

  it("is not written again by the next controller", async () => {
    cluster.pool("blue", ["10.0.0.0/24"]);
    await start();
    await count();
    await rig.clock.advance(3_600_000);
    await start();
    await count();
    expect(writes()).toBe(1);
  });

  it("follows allocations that come and go", async () => {
    cluster.pool("blue", ["10.0.0.0/24"], { mode: "PerAddress" });
    await start();
    await count();
    const pod = cluster.pod("vm", { node: "n1" });
    const [first] = ["10.0.0.5", "10.0.0.6"].map((address) => cluster.allocation(address, pod));
    await rig.clock.advance(30_000);
    await count();
    expect(counts("blue").used).toBe(2);
    cluster.remove("addressallocations", first ?? "");
    await rig.clock.advance(30_000);
    await count();
    expect(counts("blue").used).toBe(1);
  });

  it("warns once at 80 %, of addresses or of blocks, with an event", async () => {
    cluster.space("small", { ipv4: 30, ipv6: 122 });
    cluster.pool("blue", ["10.0.0.0/28"], { mode: "PerAddress" });
    cluster.blockOf("10.0.0.0/28", { kind: "Shared" });
    const pod = cluster.pod("vm", { node: "n1" });
    for (let host = 1; host <= 11; host++) cluster.allocation(`10.0.0.${host}`, pod);
    await start();
    await count();
    expect(conditions("blue").slice(1, 3)).toEqual(FINE.slice(1));
    cluster.allocation("10.0.0.12", pod);
    await rig.clock.advance(30_000);
    await count();
    expect(conditions("blue")[1]).toBe("NearlyFull True FewAddressesLeft");
    expect(message("blue", "NearlyFull")).toBe("12 of 14 addresses are used: add a subnet or a range");
    expect(all.posted).toMatchObject([{ reason: "AddressPoolNearlyFull", regarding: { name: "blue" } }]);
    cluster.allocation("10.0.0.13", pod);
    await rig.clock.advance(30_000);
    await count();
    expect(all.posted).toHaveLength(1);
    cluster.allocation("10.0.0.14", pod);
    await rig.clock.advance(30_000);
    await count();
    expect(conditions("blue")[2]).toBe("Exhausted True NoAddressLeft");
    expect(all.posted).toMatchObject([{}, { reason: "AddressPoolExhausted" }]);
  });

  it("is not exhausted though free (Cilium #47910): only where a node needs a block and all are taken", async () => {
    cluster.pool("blue", ["10.0.0.0/27"]);
    for (const node of ["n1", "n2"]) cluster.node(node);
    cluster.block("10.0.0.0/28", "n1", 2);
    const block = cluster.block("10.0.0.16/28", "n2", 14);
    await start();
    await count();
    expect(conditions("blue").slice(1, 3)).toEqual(["NearlyFull True FewBlocksLeft", FINE[2]]);
    rig.server.store.merge("addressblocks", block, { status: { used: 15 } }, "status");
    await rig.clock.advance(30_000);
    await count();
    expect(conditions("blue")[2]).toBe("Exhausted True NoBlockLeft");
    expect(message("blue", "Exhausted")).toMatch(/^No block is left for 1 nodes.*; 13 addresses are free/);
    expect(all.posted.map(({ reason }) => reason)).toEqual(["AddressPoolNearlyFull", "AddressPoolExhausted"]);
    // It grows.
    const subnets = [{ cidr: "10.0.0.0/27" }, { cidr: "10.0.1.0/24" }];
    rig.server.store.merge("addresspools", "blue", { metadata: { generation: 2 }, spec: { subnets } });
    await rig.clock.advance(30_000);
    await count();
    expect(conditions("blue").slice(0, 3)).toEqual(FINE);
    expect(counts("blue").total).toBe(30 + 254);
  });

  it("says what is wrong with a pool that cannot be used", async () => {
    cluster.pool("blue", ["10.0.0.5/24"]);
    cluster.pool("red", ["10.0.0.0/24"], { space: "other" });
    rig.server.store.create("addresspools", {
      metadata: { name: "empty" },
      spec: { subnets: [{ cidr: "10.0.0.0/24", exclude: ["10.0.0.0/24"] }] },
    });
    await start();
    await count();
    const unknown = (reason: string) =>
      ["NearlyFull", "Exhausted", "Overlapping"].map((type) => `${type} Unknown ${reason}`);
    expect(conditions("blue")).toEqual(["Ready False Invalid", ...unknown("Invalid")]);
    expect(message("blue", "Ready")).toMatch(/"10\.0\.0\.5\/24" is not a network/);
    expect(conditions("red")).toEqual(["Ready False SpaceMissing", ...unknown("SpaceMissing")]);
    expect(message("red", "Ready")).toMatch(/AddressSpace other does not exist/);
    expect(conditions("empty")).toEqual(["Ready False NoAddresses", ...unknown("NoAddresses")]);
    cluster.space("other");
    await rig.clock.advance(30_000);
    await count();
    expect(conditions("red")[0]).toBe("Ready True Valid");
  });

  it("names pools of the same space that share addresses, and counts the shared ones in each", async () => {
    cluster.space("other");
    cluster.pool("blue", ["10.0.0.0/24"]);
    cluster.pool("red", ["10.0.0.0/28", "10.1.0.0/28"]);
    cluster.pool("apart", ["10.0.1.0/24"]);
    cluster.pool("isolated", ["10.0.0.0/24"], { space: "other" });
    cluster.pool("six", ["fd00::/64"]);
    cluster.node("n1");
    cluster.block("10.0.0.0/28", "n1", 5);
    await start();
    await count();
    expect(conditions("blue")[3]).toBe("Overlapping True SharesAddresses");
    expect(message("blue", "Overlapping")).toMatch(/^It shares addresses with red\./);
    expect(message("red", "Overlapping")).toMatch(/^It shares addresses with blue\./);
    for (const pool of ["apart", "isolated", "six"])
      expect(conditions(pool)[3]).toBe("Overlapping False NoOverlap");
    expect([counts("blue").used, counts("red").used, counts("isolated").used]).toEqual([5, 5, 0]);
    expect(counts("six").total).toBe(Number.MAX_SAFE_INTEGER);
  });

  it("warns where the cluster's own pods have addresses of a pool", async () => {
    cluster.pool("blue", ["10.0.0.0/24"]);
    cluster.pool("apart", ["10.0.1.0/24"]);
    rig.server.store.create("nodes", { metadata: { name: "n1" }, spec: { podCIDRs: ["10.0.0.128/25"] } });
    await start();
    await count();
    expect(conditions("blue")[3]).toBe("Overlapping True SharesPodNetwork");
    expect(message("blue", "Overlapping")).toContain("10.0.0.128/25");
    expect(conditions("apart")[3]).toBe("Overlapping False NoOverlap");
  });

  it("counts a quarantined block as used: no node can have its addresses", async () => {
    cluster.pool("blue", ["10.0.0.0/24"]);
    cluster.node("n1");
    const block = cluster.block("10.0.0.16/28", "n1", 2);
    rig.server.store.merge("addressblocks", block, { spec: { state: "Quarantined" } });
    await start();
    await count();
    expect(counts("blue")).toMatchObject({ inBlocks: 16, used: 16, free: 238 });
  });

  it("is written although its first write met another one", async () => {
    cluster.pool("blue", ["10.0.0.0/24"]);
    await start();
    rig.server.illnesses.push({ kind: "status", status: 409 });
    await controller.count(all.signal);
    await count();
    expect(writes()).toBe(1);
  });

  it("fails without harm, and is written when the server can again", async () => {
    cluster.pool("blue", ["10.0.0.0/24"]);
    await start();
    rig.server.illnesses.push({ kind: "status", status: 500 });
    await controller.count(all.signal);
    expect(rig.logged).toEqual(["warn the status of a pool of addresses cannot be written"]);
    await rig.clock.advance(30_000);
    await count();
    expect(writes()).toBe(1);
  });
});

describe("shared blocks", () => {
  const shared = () => cluster.blocks.filter((name) => name.endsWith("Bound")).length;

  it("are made for a pool of single addresses ahead of their use, up to its last address", async () => {
    cluster.pool("blue", ["10.0.0.0/23"], { mode: "PerAddress" });
    await start();
    await count();
    // 256 free addresses: the first block lacks the network's.
    expect(shared()).toBe(17);
    await count();
    expect(shared()).toBe(17);
    const pod = cluster.pod("vm", { node: "n1" });
    for (let host = 1; host <= 200; host++) cluster.allocation(`10.0.0.${host}`, pod);
    await count();
    expect(shared()).toBe(29);
    for (let host = 1; host <= 200; host++) cluster.allocation(`10.0.1.${host}`, pod);
    await count();
    expect(shared()).toBe(32);
    expect(rig.server.store.get("addressblocks", "default.10-0-1-240.28")["spec"]).toEqual({
      ...{ space: "default", cidr: "10.0.1.240/28", owner: { kind: "Shared" }, state: "Bound", pool: "blue" },
    });
  });

  it("are not made of blocks that a node has, nor for pools whose nodes have blocks", async () => {
    cluster.pool("blue", ["10.0.0.0/26"], { mode: "PerAddress" });
    cluster.pool("red", ["10.1.0.0/24"]);
    cluster.node("n1");
    cluster.block("10.0.0.16/28", "n1");
    await start();
    // Taken before the controller sees it.
    cluster.block("10.0.0.32/28", "n1");
    await controller.supply(all.signal);
    const owners = rig.server.store
      .all("addressblocks")
      .map(({ spec }) => `${(spec as Json)["cidr"]} ${((spec as Json)["owner"] as Json)["kind"]}`);
    expect(owners.sort()).toEqual([
      ...["10.0.0.0/28 Shared", "10.0.0.16/28 Node", "10.0.0.32/28 Node", "10.0.0.48/28 Shared"],
    ]);
  });
});
