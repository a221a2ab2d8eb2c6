import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Machine } from "../../test/model/machine.ts";
import { HEALTHY, SimulatedApi, SimulatedApiServer } from "../../test/model/simulated-api.ts";
import { Simulation } from "../../test/model/simulation.ts";
import { type ApiRig, startApiRig } from "../../test/stand-in/api-server/api-rig.ts";
import type { Json } from "../../test/stand-in/api-server/object-store.ts";
import { failureOf } from "../../test/stand-in/failure-of.ts";
import { IpamCluster } from "../../test/stand-in/ipam/cluster.ts";
import { type AddressAllocation, parseAddressAllocation } from "../address-objects/address-allocation.ts";
import { parseAddressPool } from "../address-objects/address-pool.ts";
import { parseAddressSpace } from "../address-objects/address-space.ts";
import { ADDRESS_ALLOCATIONS } from "../address-objects/resources.ts";
import { type Address, formatAddress, parseAddress } from "../addresses/address.ts";
import { allocateShared, type SharedRequest } from "./allocate-shared.ts";
import { releaseShared } from "./release-shared.ts";

const signal = AbortSignal.timeout(60_000);
const claim = (name: string) => ({
  kind: "IPAMClaim",
  namespace: "ns",
  name,
  uid: `u-${name}`,
  network: "net",
});
const podOf = (container: string) => ({
  ...{ kind: "Pod", namespace: "ns", name: "p", uid: "u-p", network: "net" },
  ...{ interface: "net1", container },
});
const present = (address: Address | undefined): Address => {
  if (address === undefined) throw new Error("not an address");
  return address;
};
const textOf = ({ address }: AddressAllocation) => formatAddress(address);

let rig: ApiRig;
let cluster: IpamCluster;

beforeEach(async () => {
  rig = await startApiRig();
  cluster = new IpamCluster(rig.server);
  cluster.space();
});
afterEach(() => rig.close());

/** Of pool blue in 10.0.0.0/24, of which the first block is shared unless `blocks` says otherwise. */
function requester(more: Json = {}, blocks: readonly string[] = ["10.0.0.0/28"]) {
  const pool = parseAddressPool(cluster.pool("blue", ["10.0.0.0/24"], more));
  const space = parseAddressSpace(rig.server.store.get("addressspaces", "default"));
  for (const block of blocks) cluster.blockOf(block, { kind: "Shared" });
  return (request: Partial<SharedRequest> & Pick<SharedRequest, "owner">) =>
    allocateShared({ api: rig.client, pool, space, random: () => 0, signal, ...request });
}

describe("an address of a shared block", () => {
  it("is taken by creating its allocation, which names the owner; the next one gets another", async () => {
    const allocate = requester();
    const first = await allocate({ owner: podOf("c1"), node: "n1" });
    expect(first).toMatchObject({ pool: "blue", node: "n1", owner: podOf("c1"), key: undefined });
    expect([textOf(first), textOf(await allocate({ owner: claim("b") }))]).toEqual(["10.0.0.1", "10.0.0.2"]);
  });

  it("is never the gateway, an excluded one, one of a node's block, or one of a block that is being given back", async () => {
    const subnet = { cidr: "10.0.0.0/24", gateway: "10.0.0.1", exclude: ["10.0.0.2-10.0.0.13"] };
    cluster.node("n1");
    cluster.block("10.0.0.16/28", "n1");
    const allocate = requester({ subnets: [subnet] }, ["10.0.0.0/28", "10.0.0.32/28"]);
    rig.server.store.merge("addressblocks", "default.10-0-0-32.28", { spec: { state: "Releasing" } });
    const got = [await allocate({ owner: claim("a") }), await allocate({ owner: claim("b") })];
    expect(got.map(textOf)).toEqual(["10.0.0.14", "10.0.0.15"]);
    expect(await failureOf(allocate({ owner: claim("c") }))).toMatchObject({ code: "pool-exhausted" });
  });

  it("is found where many blocks are full, without a list of each", async () => {
    const cidrs = Array.from({ length: 14 }, (_, index) => `10.0.0.${16 * index}/28`);
    const allocate = requester({}, cidrs);
    for (let value = 1; value < 14 * 16; value++)
      if (value !== 200) cluster.allocation(`10.0.0.${value}`, undefined);
    expect(textOf(await allocate({ owner: claim("a") }))).toBe("10.0.0.200");
    expect(rig.server.answers.filter((answer) => answer.startsWith("GET")).length).toBeLessThan(20);
  });

  it("is taken by a hint without a list, and by a list where the hints are old", async () => {
    const allocate = requester();
    const hints = ["10.0.0.3", "10.0.0.4"].map((text) => present(parseAddress(text)));
    const before = rig.server.answers.length;
    expect(textOf(await allocate({ owner: claim("a"), hints }))).toBe("10.0.0.3");
    expect(rig.server.answers.slice(before)).toEqual(["POST 201", "GET 200"]);
    const later = [
      await allocate({ owner: claim("b"), hints }),
      await allocate({ owner: claim("c"), hints }),
    ];
    expect(later.map(textOf)).toEqual(["10.0.0.4", "10.0.0.1"]);
  });

  it("is not taken by a hint whose block is gone or being given back", async () => {
    const allocate = requester({}, ["10.0.0.0/28", "10.0.0.16/28"]);
    rig.server.store.merge("addressblocks", "default.10-0-0-0.28", { spec: { state: "Releasing" } });
    const [releasing, gone] = ["10.0.0.3", "10.0.0.33"].map((text) => [present(parseAddress(text))]);
    expect(await failureOf(allocate({ owner: claim("a"), hints: releasing }))).toMatchObject({
      code: "pool-exhausted",
    });
    expect(textOf(await allocate({ owner: claim("b"), hints: gone }))).toBe("10.0.0.16");
  });

  it("of a claim is not deleted where hints give it a second one, because either may be published", async () => {
    const allocate = requester();
    const first = await allocate({ owner: claim("a") });
    const second = await allocate({ owner: claim("a"), hints: [present(parseAddress("10.0.0.9"))] });
    expect(await allocate({ owner: claim("a") })).toEqual(first);
    expect(cluster.allocations).toEqual([first.name, second.name]);
  });

  it("stays its owner's when it is asked for again; a sandbox of the same pod gets its own", async () => {
    const allocate = requester();
    const first = await allocate({ owner: claim("a") });
    expect(await allocate({ owner: claim("a") })).toEqual(first);
    const [one, other] = [await allocate({ owner: podOf("c1") }), await allocate({ owner: podOf("c2") })];
    expect([one, other].map(textOf)).toEqual(["10.0.0.2", "10.0.0.3"]);
  });

  it("that was allocated twice for one owner is the older one for all, and the other is deleted", async () => {
    const allocate = requester();
    const [first, second] = await Promise.all([
      allocate({ owner: podOf("c1") }),
      allocate({ owner: podOf("c1"), random: () => 0.5 }),
    ]);
    expect(first).toEqual(second);
    expect(cluster.allocations).toEqual([first.name]);
  });

  it("whose block was given back meanwhile is not used, and another one is taken", async () => {
    const allocate = requester({}, ["10.0.0.0/28", "10.0.0.16/28"]);
    let isGone = false;
    const api = {
      get: rig.client.get.bind(rig.client),
      list: rig.client.list.bind(rig.client),
      update: rig.client.update.bind(rig.client),
      delete: rig.client.delete.bind(rig.client),
      create: (...args: Parameters<typeof rig.client.create>) => {
        if (!isGone) cluster.remove("addressblocks", "default.10-0-0-0.28");
        isGone = true;
        return rig.client.create(...args);
      },
    };
    const got = await allocate({ owner: claim("a"), api });
    expect(textOf(got)).toBe("10.0.0.16");
    expect(cluster.allocations).toEqual([got.name]);
  });

  it("that is requested is given exactly, or refused with the reason", async () => {
    const allocate = requester();
    const ask = (text: string, name: string) =>
      allocate({ owner: claim(name), requested: parseAddress(text) });
    expect(textOf(await ask("10.0.0.9", "a"))).toBe("10.0.0.9");
    expect(textOf(await ask("10.0.0.9", "a"))).toBe("10.0.0.9");
    await expect(ask("10.0.0.9", "b")).rejects.toThrow(/IPAMClaim ns\/a has it/);
    await expect(ask("10.0.0.8", "a")).rejects.toThrow(/10\.0\.0\.9 of pool blue is allocated to it/);
    await expect(ask("10.0.0.0", "b")).rejects.toThrow(/does not hand it out/);
    await expect(ask("10.0.0.77", "b")).rejects.toThrow(/its block default\.10-0-0-64\.28 is not shared/);
  });

  it("is released only as it was read", async () => {
    const allocate = requester();
    const got = await allocate({ owner: claim("a") });
    rig.server.store.merge("addressallocations", got.name, { metadata: { annotations: { seen: "yes" } } });
    expect(await releaseShared(rig.client, got, signal)).toBe(false);
    const now = parseAddressAllocation(await rig.client.get(ADDRESS_ALLOCATIONS, got.name, signal));
    expect([
      await releaseShared(rig.client, now, signal),
      await releaseShared(rig.client, now, signal),
    ]).toEqual([true, true]);
    expect(cluster.allocations).toEqual([]);
  });
});

describe("a sticky address", () => {
  it("waits for its key, is given to nothing else, and comes back with the key, as a stopped VM's should (kube-ovn #2486)", async () => {
    const allocate = requester();
    const name = cluster.allocation("10.0.0.1", undefined, { key: "02:00:00:00:00:01" });
    expect(textOf(await allocate({ owner: claim("a") }))).toBe("10.0.0.2");
    expect(await allocate({ owner: claim("b"), key: "02:00:00:00:00:01" })).toMatchObject({
      ...{ name, owner: claim("b"), key: "02:00:00:00:00:01" },
    });
  });

  it("is kept for the key from the first time on, but not where another has the key's address", async () => {
    const allocate = requester();
    const [first, second] = [
      await allocate({ owner: podOf("c1"), key: "db", node: "n1" }),
      await allocate({ owner: podOf("c2"), key: "db", node: "n2" }),
    ];
    expect([first.key, second.key]).toEqual(["db", undefined]);
    await expect(allocate({ owner: claim("a"), key: "web", requested: first.address })).rejects.toThrow(
      /Pod ns\/p has it/,
    );
  });
});

describe("callers at the same time", () => {
  it("never have the same address for two owners, and have one for each owner, whatever becomes of their requests", async () => {
    const faults = fc.record({
      lost: fc.constantFrom(0, 10),
      answerLost: fc.constantFrom(0, 10),
      refused: fc.constantFrom(0, 10),
      failedAfterwards: fc.constantFrom(0, 10),
      slow: fc.constantFrom(0, 10),
    });
    const callers = fc.array(fc.record({ owner: fc.nat(2), key: fc.constantFrom(undefined, "k1", "k2") }), {
      ...{ minLength: 2, maxLength: 8 },
    });
    await fc.assert(
      fc.asyncProperty(fc.nat(), faults, callers, async (seed, habits, all) => {
        const simulation = new Simulation(seed);
        const server = new SimulatedApiServer(simulation);
        const objects = new IpamCluster(server as never);
        const space = parseAddressSpace(objects.space("default", { ipv4: 30, ipv6: 126 }));
        const pool = parseAddressPool(objects.pool("blue", ["10.0.0.0/28"]));
        objects.blockOf("10.0.0.0/30", { kind: "Shared" });
        objects.blockOf("10.0.0.4/30", { kind: "Shared" });
        const ownerOf = (owner: number) => podOf(`c${owner}`);
        const results = all.map(async ({ owner, key }, index) => {
          const program = new Machine(`node-${index}`, simulation).run();
          const api = new SimulatedApi(server, program, { ...HEALTHY, ...habits });
          for (;;) {
            const request = { api, space, pool, owner: ownerOf(owner), key, random: simulation.random };
            const got = await allocateShared({ ...request, signal: new AbortController().signal }).catch(
              () => undefined,
            );
            if (got !== undefined) return { owner, name: got.name };
            await new Promise<void>((resolve) => simulation.after(1_000, () => resolve()));
          }
        });
        const got = await simulation.until(Promise.all(results), 3_600_000);
        // What was slow has arrived by then.
        await simulation.advance(120_000);
        const byOwner = Map.groupBy(got, ({ owner }) => owner);
        for (const ofOne of byOwner.values()) expect(new Set(ofOne.map(({ name }) => name)).size).toBe(1);
        expect(new Set(got.map(({ name }) => name)).size).toBe(byOwner.size);
        for (const { owner, name } of got) {
          const { spec } = server.store.get("addressallocations", name);
          expect(spec).toMatchObject({ owner: ownerOf(owner) });
        }
      }),
      { numRuns: 60 },
    );
  });
});
