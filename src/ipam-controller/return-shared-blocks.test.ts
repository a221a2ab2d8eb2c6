import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ApiRig } from "../../test/stand-in/api-server/api-rig.ts";
import type { IpamCluster } from "../../test/stand-in/ipam/cluster.ts";
import { ControllerRig } from "../../test/stand-in/ipam/controller-rig.ts";
import { parseAddressPool } from "../address-objects/address-pool.ts";
import { parseAddressSpace } from "../address-objects/address-space.ts";
import { allocateShared } from "../pool-addresses/allocate-shared.ts";
import type { IpamController } from "./controller.ts";

let all: ControllerRig;
let rig: ApiRig;
let cluster: IpamCluster;

beforeEach(async () => {
  all = await ControllerRig.open();
  ({ rig, cluster } = all);
});
afterEach(() => all.close());

const SHARED = { kind: "Shared" } as const;
const claim = { kind: "IPAMClaim", namespace: "ns", name: "c", uid: "u", network: "net" };
const looks = (by: IpamController, ...seconds: readonly number[]) => all.looks(by, ...seconds);

/** A pool of blocks, beside which a shared block is left over, with what takes an address of it. */
function leftOver() {
  const pool = parseAddressPool(cluster.pool("blue", ["10.0.0.0/24"]));
  const space = parseAddressSpace(rig.server.store.get("addressspaces", "default"));
  cluster.blockOf("10.0.0.0/28", SHARED);
  const common = { api: rig.client, pool, space, random: () => 0, signal: all.signal };
  return (name = "c") => allocateShared({ ...common, owner: { ...claim, name, uid: name } });
}

describe("a shared block", () => {
  it("that no pool needs is given back at the second look that finds it empty", async () => {
    leftOver();
    const controller = await all.start();
    await looks(controller, 59);
    expect(cluster.blocks).toEqual(["default.10-0-0-0.28 Bound"]);
    await looks(controller, 1);
    expect(cluster.blocks).toEqual([]);
  });

  it("that a pool does not need ahead is given back after ten minutes", async () => {
    cluster.pool("blue", ["10.0.0.0/22"], { mode: "PerAddress" });
    for (let block = 0; block < 20; block++) {
      const [third, last] = [Math.floor(block / 16), (block % 16) * 16];
      cluster.blockOf(`10.0.${third}.${last}/28`, SHARED);
    }
    const controller = await all.start();
    await looks(controller, 599);
    expect(cluster.blocks).toHaveLength(20);
    await looks(controller, 1);
    // 256 free addresses are kept; the first block has fewer, because the network's own is not handed out.
    expect(cluster.blocks).toHaveLength(16);
    expect(cluster.blocks).toContain("default.10-0-1-0.28 Bound");
    expect(cluster.blocks).not.toContain("default.10-0-1-16.28 Bound");
  });

  it("with an address stays, also where that was allocated after the watches were read", async () => {
    const allocate = leftOver();
    const { client } = rig;
    const api = {
      get: client.get.bind(client),
      list: client.list.bind(client),
      openWatch: client.openWatch.bind(client),
      create: client.create.bind(client),
      delete: client.delete.bind(client),
      update: async (...args: Parameters<typeof client.update>) => {
        // It reads the block before this one says that it is being given back.
        if (args[0].plural === "addressblocks" && cluster.allocations.length === 0) await allocate();
        return client.update(...args);
      },
    };
    const controller = await all.start(api);
    await looks(controller, 60);
    expect(cluster.blocks).toEqual(["default.10-0-0-0.28 Bound"]);
    expect(cluster.allocations).toHaveLength(1);
  });

  it("that is being given back gives no address, and is finished by the next controller", async () => {
    const allocate = leftOver();
    rig.server.store.merge("addressblocks", "default.10-0-0-0.28", { spec: { state: "Releasing" } });
    await expect(allocate()).rejects.toMatchObject({ code: "pool-exhausted" });
    expect(cluster.allocations).toEqual([]);
    await looks(await all.start(), 0);
    expect(cluster.blocks).toEqual([]);
  });

  it("stays where the allocations cannot be listed", async () => {
    leftOver();
    const controller = await all.start();
    await looks(controller, 30);
    await rig.clock.advance(30_000);
    // The block is read and changed before.
    rig.server.illnesses.push(undefined, undefined, { kind: "status", status: 500 });
    await all.look(controller);
    expect(cluster.blocks).toEqual(["default.10-0-0-0.28 Releasing"]);
    await looks(controller, 1);
    expect(cluster.blocks).toEqual([]);
  });
});
