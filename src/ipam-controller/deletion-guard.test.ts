import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ApiRig } from "../../test/stand-in/api-server/api-rig.ts";
import type { IpamCluster } from "../../test/stand-in/ipam/cluster.ts";
import { ControllerRig } from "../../test/stand-in/ipam/controller-rig.ts";
import type { IpamController } from "./controller.ts";

let all: ControllerRig;
let rig: ApiRig;
let cluster: IpamCluster;

beforeEach(async () => {
  all = await ControllerRig.open();
  ({ rig, cluster } = all);
  cluster.pool("blue", ["10.0.0.0/24"]);
  cluster.node("n1");
});
afterEach(() => all.close());

const pool = () => rig.server.store.find("addresspools", "blue");
const space = () => rig.server.store.find("addressspaces", "default");
const look = (by: IpamController) => all.look(by);

describe("a pool", () => {
  it("that is deleted stays until no block and no allocation names it, and says what it waits for", async () => {
    cluster.allocation("10.0.0.1", cluster.pod("p", { node: "n1" }), { node: "n1" });
    const controller = await all.start();
    await look(controller);
    expect(pool()?.metadata["finalizers"]).toEqual(["ipam.kube-vhostuser.io/in-use"]);
    cluster.remove("addresspools", "blue");
    await look(controller);
    await all.count(controller);
    expect(JSON.stringify(pool()?.["status"])).toMatch(/Deleting.*allocations: 1/);
    cluster.remove("addressallocations", "default.10-0-0-1");
    await look(controller);
    expect(pool()).toBeUndefined();
  });

  it("is not kept by a block that is left to whereabouts, which keeps its space", async () => {
    const block = cluster.block("10.0.0.0/28", "n1");
    rig.server.store.merge("addressblocks", block, { spec: { pool: "blue", owner: { kind: "Foreign" } } });
    const controller = await all.start();
    await look(controller);
    cluster.remove("addresspools", "blue");
    cluster.remove("addressspaces", "default");
    await look(controller);
    await look(controller);
    expect(pool()).toBeUndefined();
    expect(space()).toBeDefined();
  });

  it("is kept also where it is deleted while no controller runs", async () => {
    const block = cluster.block("10.0.0.0/28", "n1");
    rig.server.store.merge("addressblocks", block, { spec: { pool: "blue" } });
    await look(await all.start());
    cluster.remove("addresspools", "blue");
    const next = await all.start();
    await look(next);
    expect(pool()).toBeDefined();
    cluster.remove("addressblocks", block);
    await look(next);
    expect(pool()).toBeUndefined();
  });

  it("stays where what names it cannot be listed, and its other finalizers stay", async () => {
    rig.server.store.merge("addresspools", "blue", { metadata: { finalizers: ["example.com/other"] } });
    const controller = await all.start();
    await look(controller);
    cluster.remove("addresspools", "blue");
    await all.seen(controller);
    // The pool is read before.
    rig.server.illnesses.push(undefined, { kind: "status", status: 500 });
    await look(controller);
    expect(pool()?.metadata["finalizers"]).toHaveLength(2);
    await look(controller);
    expect(pool()?.metadata["finalizers"]).toEqual(["example.com/other"]);
  });
});

describe("a space", () => {
  it("that is deleted stays until it has no pools and blocks", async () => {
    const block = cluster.block("10.0.0.0/28", "n1");
    const controller = await all.start();
    await look(controller);
    cluster.remove("addressspaces", "default");
    await look(controller);
    expect(space()).toBeDefined();
    cluster.remove("addressblocks", block);
    await look(controller);
    expect(space()).toBeDefined();
    cluster.remove("addresspools", "blue");
    await look(controller);
    await look(controller);
    expect(space()).toBeUndefined();
  });
});
