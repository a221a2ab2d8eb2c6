import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AgentRig, addressesOf, openFailing } from "../../test/stand-in/ipam/agent-rig.ts";

let rig: AgentRig;
beforeEach(async () => {
  rig = await AgentRig.open();
});
afterEach(() => rig[Symbol.asyncDispose]());

describe("ADD", () => {
  it("gives an address of the pool with its prefix length and gateway", async () => {
    const agent = await rig.agent();
    const { exitCode, json } = await agent.call({ verb: "ADD" });
    expect(json).toEqual({
      cniVersion: "1.1.0",
      ips: [{ address: expect.stringMatching(/^10\.0\.0\.\d+\/24$/), gateway: "10.0.0.1" }],
    });
    expect(exitCode).toBe(0);
  });

  it("gives the same addresses when it is repeated, also by the next agent", async () => {
    const agent = await rig.agent();
    const first = await agent.call({ verb: "ADD" });
    expect(await agent.call({ verb: "ADD" })).toEqual(first);
    await rig.crash(agent);
    const next = await rig.agent();
    expect(await next.call({ verb: "ADD" })).toEqual(first);
  });

  it("gives no address twice to requests that come at once, of two nodes", async () => {
    const [one, two] = [await rig.agent({ node: "n1" }), await rig.agent({ node: "n2" })];
    const answers = await Promise.all(
      Array.from({ length: 80 }, (_, index) =>
        (index % 2 === 0 ? one : two).call({ verb: "ADD", container: `c${index}`, pod: `p${index}` }),
      ),
    );
    const given = answers.flatMap(addressesOf);
    expect(given).toHaveLength(80);
    expect(new Set(given).size).toBe(80);
  });

  it("asks the API server for nothing while the node's blocks have free addresses", async () => {
    const agent = await rig.agent();
    await agent.call({ verb: "ADD" });
    const before = rig.api.server.answers.length;
    for (const container of ["c2", "c3", "c4"]) await agent.call({ verb: "ADD", container });
    expect(rig.api.server.answers.slice(before)).toEqual([]);
  });

  it("takes the next block before the last one is used up", async () => {
    const agent = await rig.agent();
    for (let index = 0; index < 13; index++) await agent.call({ verb: "ADD", container: `c${index}` });
    await rig.api.until(() => [...agent.state.blocks.values()].filter((block) => block.isUsable).length >= 2);
    rig.apiAway();
    for (let index = 13; index < 17; index++)
      expect(await agent.call({ verb: "ADD", container: `c${index}` })).toMatchObject({ exitCode: 0 });
  });

  it("works while the API server is away and addresses are left, and says try again with the reason when none is", async () => {
    const agent = await rig.agent();
    await agent.call({ verb: "ADD", container: "c0" });
    rig.apiAway();
    const free = [...agent.state.blocks.values()].reduce(
      (sum, { prefix }) => sum + (prefix.length === 28 ? 16 : 0),
      0,
    );
    const answers = [];
    for (let index = 1; index <= free; index++)
      answers.push(await agent.call({ verb: "ADD", container: `c${index}` }));
    expect(answers.filter(({ exitCode }) => exitCode === 0).length).toBeGreaterThan(10);
    expect(answers.at(-1)?.json).toMatchObject({
      code: 11,
      msg: expect.stringMatching(
        /^kube-vhostuser-ipam kube-api-unavailable: this node has no free address of pool blue \(\d+ in use, 0 resting\), and cannot take a block: .*401/,
      ),
    });
    expect(await agent.call({ verb: "ADD", container: "c0" })).toMatchObject({ exitCode: 0 });
  });

  it("asks an API server that fails for a moment again, and gives up at its deadline", async () => {
    const agent = await rig.agent();
    const { illnesses, answers } = rig.api.server;
    illnesses.push({ kind: "status", status: 503 }, { kind: "closed" });
    const added = agent.call({ verb: "ADD" });
    await rig.api.until(() => agent.state.allocations.size === 1, 1_000);
    expect((await added).exitCode).toBe(0);
    rig.pool("other", { subnets: [{ cidr: "10.1.0.0/24" }] });
    await rig.api.until(() => agent.state.pools.has("other"));
    illnesses.push(...Array.from({ length: 100 }, () => ({ kind: "status", status: 503 }) as const));
    const deadline = new AbortController();
    const before = answers.length;
    const failed = agent.call({ verb: "ADD", container: "c2", pools: ["other"], signal: deadline.signal });
    await rig.api.until(() => answers.length >= before + 3, 1_000);
    deadline.abort();
    expect((await failed).json).toMatchObject({ code: 11, msg: expect.stringContaining("503") });
  });

  it("says try again, with pool and counts, when the pool is exhausted, and succeeds after it has grown", async () => {
    const tiny = rig.pool("tiny", { subnets: [{ cidr: "10.1.0.0/30" }] });
    const agent = await rig.agent();
    await rig.api.until(() => agent.state.pools.has("tiny"));
    const add = (container: string) => agent.call({ verb: "ADD", container, pools: ["tiny"] });
    expect([(await add("c1")).exitCode, (await add("c2")).exitCode]).toEqual([0, 0]);
    const { json } = await add("c3");
    expect(json).toMatchObject({
      code: 11,
      msg:
        "kube-vhostuser-ipam pool-exhausted: pool tiny: all 1 blocks with its 2 addresses are taken, 1 of them by this node, " +
        "where 2 addresses are in use, 0 rest after their release and 0 are free",
    });
    // It is not asked again for a while.
    const before = rig.api.server.answers.length;
    await add("c3");
    expect(rig.api.server.answers.length).toBe(before);
    const spec = { ...(tiny["spec"] as object), subnets: [{ cidr: "10.1.0.0/30" }, { cidr: "10.2.0.0/30" }] };
    rig.api.server.store.update("addresspools", "tiny", {
      ...rig.api.server.store.get("addresspools", "tiny"),
      spec,
    });
    await rig.api.until(() => (agent.state.pools.get("tiny")?.subnets.length ?? 0) === 2);
    expect(addressesOf(await add("c3"))[0]).toMatch(/^10\.2\.0\.[12]\/30$/);
  });

  it("gives an address again only after its pool's cooldown, never used ones first, then the one released longest ago", async () => {
    rig.pool("tiny", { subnets: [{ cidr: "10.1.0.0/29" }], cooldownSeconds: 90 });
    const agent = await rig.agent();
    await rig.api.until(() => agent.state.pools.has("tiny"));
    const add = async (container: string) => {
      const answer = await agent.call({ verb: "ADD", container, pools: ["tiny"] });
      return addressesOf(answer)[0] ?? answer.json.code;
    };
    const del = (container: string) => agent.call({ verb: "DEL", container });
    const [first, second] = [await add("c1"), await add("c2")];
    await del("c2");
    await rig.api.clock.advance(1_000);
    await del("c1");
    const others = [await add("c3"), await add("c4"), await add("c5"), await add("c6")];
    expect(new Set([first, second, ...others]).size).toBe(6);
    expect(await add("c7")).toBe(11);
    await rig.api.clock.advance(88_000);
    expect(await add("c7")).toBe(11);
    await rig.api.clock.advance(1_000);
    expect(await add("c7")).toBe(second);
    expect(await add("c8")).toBe(11);
    await rig.api.clock.advance(10_000);
    expect(await add("c8")).toBe(first);
  });

  it("lets released addresses rest again after a restart, whatever the wall clock says", async () => {
    rig.pool("tiny", { subnets: [{ cidr: "10.1.0.0/30" }] });
    const agent = await rig.agent();
    const call = { pools: ["tiny"] };
    await rig.api.until(() => agent.state.pools.has("tiny"));
    await agent.call({ verb: "ADD", container: "c1", ...call });
    await agent.call({ verb: "ADD", container: "c2", ...call });
    await agent.call({ verb: "DEL", container: "c1" });
    await rig.api.clock.advance(50_000);
    await rig.crash(agent);
    rig.api.clock.step(3_600_000);
    const next = await rig.agent();
    await rig.api.clock.advance(59_000);
    expect((await next.call({ verb: "ADD", container: "c3", ...call })).json.code).toBe(11);
    await rig.api.clock.advance(1_000);
    expect((await next.call({ verb: "ADD", container: "c3", ...call })).exitCode).toBe(0);
  });

  it("gives one address of each pool, and none of the first when the second has none", async () => {
    rig.pool("six", {
      subnets: [{ cidr: "fd00:1::/64" }],
      routes: [{ dst: "::/0", gw: "fd00:1::1" }],
      dns: { search: ["x"] },
    });
    rig.pool("none", { subnets: [{ cidr: "10.3.0.0/31", exclude: ["10.3.0.0/31"] }] });
    const agent = await rig.agent();
    await rig.api.until(() => agent.state.pools.size === 3);
    const { json } = await agent.call({ verb: "ADD", pools: ["blue", "six"] });
    expect(json).toEqual({
      cniVersion: "1.1.0",
      ips: [
        { address: expect.stringMatching(/^10\.0\.0\.\d+\/24$/), gateway: "10.0.0.1" },
        { address: expect.stringMatching(/^fd00:1::.*\/64$/) },
      ],
      routes: [{ dst: "::/0", gw: "fd00:1::1" }],
      dns: { nameservers: [], search: ["x"], options: [] },
    });
    const used = () => [...agent.state.blocks.values()].reduce((sum, block) => sum + block.used, 0);
    expect(used()).toBe(2);
    expect((await agent.call({ verb: "ADD", container: "c2", pools: ["blue", "none"] })).json.code).toBe(11);
    expect(used()).toBe(2);
  });

  it("uses a block that the node has for every pool that has addresses of it", async () => {
    rig.pool("half", { subnets: [{ cidr: "10.7.0.0/28", ranges: ["10.7.0.1-10.7.0.4"] }] });
    rig.pool("other", { subnets: [{ cidr: "10.7.0.0/28", ranges: ["10.7.0.5-10.7.0.8"] }] });
    const agent = await rig.agent();
    await rig.api.until(() => agent.state.pools.size === 3);
    expect((await agent.call({ verb: "ADD", pools: ["half"] })).exitCode).toBe(0);
    const { json } = await agent.call({ verb: "ADD", container: "c2", pools: ["other"] });
    expect(json.ips?.[0]?.address).toMatch(/^10\.7\.0\.[5-8]\//);
    expect(rig.blocks).toHaveLength(1);
  });

  it("answers in the words of the caller's CNI version", async () => {
    const agent = await rig.agent();
    const { json } = await agent.call({ verb: "ADD", cniVersion: "0.4.0" });
    expect(json.ips).toEqual([{ version: "4", address: expect.any(String), gateway: "10.0.0.1" }]);
    expect((await agent.call({ verb: "ADD", cniVersion: "0.2.0" })).json.code).toBe(1);
  });

  it("takes addresses of ranges in the network's own configuration, in host-local's form", async () => {
    const agent = await rig.agent();
    const range = { subnet: "10.9.0.0/24", rangeStart: "10.9.0.20", rangeEnd: "10.9.0.22" };
    const ipam = {
      ranges: [[range], [{ subnet: "fd09::/64" }]],
      exclude: ["10.9.0.21"],
      routes: [{ dst: "0.0.0.0/0" }],
    };
    const given = [];
    for (const container of ["c1", "c2"])
      given.push((await agent.call({ verb: "ADD", container, ipam })).json);
    expect(given.map(({ ips }) => ips?.[0])).toEqual([
      { address: "10.9.0.20/24", gateway: "10.9.0.1" },
      { address: "10.9.0.22/24", gateway: "10.9.0.1" },
    ]);
    expect(given[0]).toMatchObject({ routes: [{ dst: "0.0.0.0/0" }] });
    expect((await agent.call({ verb: "ADD", container: "c3", ipam })).json.msg).toContain(
      "the ranges in space default",
    );
  });

  it.each([
    [{ pools: ["blue"], pool: "x" }, 2, "ipam.pool: there is no such key"],
    [{ pools: ["blue"], sticky: "mac" }, 2, "ipam.sticky: there is no such key"],
    [{}, 7, 'write either "pools" or "ranges"'],
    [{ pools: ["blue", "blue"] }, 7, "must name each pool once"],
    [{ pools: ["blue"], space: "other" }, 7, "belongs to ranges"],
    [{ ranges: [[{ subnet: "10.0.0.5/24" }]] }, 7, "the network is 10.0.0.0/24"],
    [{ ranges: [[{ subnet: "10.0.0.0/24", rangeEnd: "10.0.1.9" }]] }, 7, "is not inside 10.0.0.0/24"],
    [{ pools: ["green"] }, 117, "there is no AddressPool green"],
  ])("refuses %j and names what is wrong", async (ipam, code, text) => {
    const agent = await rig.agent();
    const { exitCode, json } = await agent.call({ verb: "ADD", ipam });
    expect(json).toMatchObject({ code, msg: expect.stringContaining(text) });
    expect(exitCode).toBe(1);
  });

  it("that comes after its DEL, from a caller that outlived its runtime, gives nothing", async () => {
    const agent = await rig.agent();
    const startedAtMs = rig.api.clock.monotonic();
    await agent.call({ verb: "DEL", startedAtMs: startedAtMs + 5 });
    expect((await agent.call({ verb: "ADD", startedAtMs })).json).toMatchObject({
      code: 11,
      msg: expect.stringContaining("superseded"),
    });
  });

  it("answers an error and keeps no address when the journal cannot be written", async () => {
    const failing = { isFull: false };
    const agent = await rig.agent({ openJournal: openFailing(failing) });
    await agent.call({ verb: "ADD" });
    failing.isFull = true;
    expect((await agent.call({ verb: "ADD", container: "c2" })).json).toMatchObject({ code: 116 });
    expect([...agent.state.blocks.values()].reduce((sum, block) => sum + block.used, 0)).toBe(1);
  });
});
