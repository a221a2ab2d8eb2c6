import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AgentRig, addressesOf } from "../../test/stand-in/ipam/agent-rig.ts";

let rig: AgentRig;
beforeEach(async () => {
  rig = await AgentRig.open();
});
afterEach(() => rig[Symbol.asyncDispose]());

describe("a requested address", () => {
  it.each([
    ["the capability ips", { config: { runtimeConfig: { ips: ["10.0.0.77/24"] } } }],
    ["the capability ips, without a prefix length", { config: { runtimeConfig: { ips: ["10.0.0.77"] } } }],
    ["args.cni.ips", { config: { args: { cni: { ips: ["10.0.0.77"] } } } }],
    ["IP of CNI_ARGS", { env: { CNI_ARGS: "IP=10.0.0.77" } }],
  ])("by %s is given, of a block that is taken for it", async (_what, call) => {
    const agent = await rig.agent();
    expect(addressesOf(await agent.call({ verb: "ADD", ...call }))).toEqual(["10.0.0.77/24"]);
    expect(rig.blocks.map(({ metadata }) => metadata.name)).toEqual(["default.10-0-0-64.28"]);
    expect(addressesOf(await agent.call({ verb: "ADD", ...call }))).toEqual(["10.0.0.77/24"]);
  });

  it("of one pool comes beside any address of the other", async () => {
    rig.pool("six", { subnets: [{ cidr: "fd00:0:0:1::/64" }] });
    const agent = await rig.agent();
    await rig.api.until(() => agent.state.pools.has("six"));
    const config = { runtimeConfig: { ips: ["fd00:0:0:1:0::99"] } };
    const answer = await agent.call({ verb: "ADD", pools: ["blue", "six"], config });
    expect(addressesOf(answer)).toEqual([expect.stringMatching(/^10\.0\.0\./), "fd00:0:0:1::99/64"]);
  });

  it.each([
    ["10.0.1.5", "the network's pools or ranges do not hand it out"],
    ["10.0.0.1", "the network's pools or ranges do not hand it out"],
    ["fd00::1", "the network's pools or ranges do not hand it out"],
    ["10.0.0.5/16", "the prefix length of its subnet is 24"],
    ["web", "it is not an IP address"],
    ["10.0.0.5,10.0.0.6", "10.0.0.5 of the same pool was requested too"],
  ])("%s is refused: %s", async (text, why) => {
    const agent = await rig.agent();
    const { json } = await agent.call({ verb: "ADD", config: { runtimeConfig: { ips: text.split(",") } } });
    expect(json).toMatchObject({ code: 118, msg: expect.stringContaining(why) });
    expect(rig.blocks).toEqual([]);
  });

  it("is refused while a pod has it, and while it rests, and given afterwards", async () => {
    const agent = await rig.agent();
    const config = { runtimeConfig: { ips: ["10.0.0.77"] } };
    await agent.call({ verb: "ADD", config, pod: "p1" });
    const add = () => agent.call({ verb: "ADD", container: "c2", config });
    expect((await add()).json.msg).toContain("pod tenant/p1 has it");
    await agent.call({ verb: "DEL" });
    expect((await add()).json.msg).toContain("it was released, and rests for another 60 s");
    await rig.api.clock.advance(60_000);
    expect(addressesOf(await add())).toEqual(["10.0.0.77/24"]);
  });

  it("is refused where another node has its block", async () => {
    const [one, two] = [await rig.agent({ node: "n1" }), await rig.agent({ node: "n2" })];
    await one.call({ verb: "ADD", config: { runtimeConfig: { ips: ["10.0.0.77"] } } });
    const { json } = await two.call({ verb: "ADD", config: { runtimeConfig: { ips: ["10.0.0.78"] } } });
    expect(json).toMatchObject({
      code: 118,
      msg: expect.stringContaining("its block default.10-0-0-64.28 is not this node's"),
    });
    expect(two.state.blocks.size).toBe(0);
  });

  it("says try again while the API server is away and its block would have to be taken", async () => {
    const agent = await rig.agent();
    rig.apiAway();
    const { json } = await agent.call({ verb: "ADD", config: { runtimeConfig: { ips: ["10.0.0.77"] } } });
    expect(json).toMatchObject({
      code: 11,
      msg: expect.stringContaining("the block of the requested address 10.0.0.77"),
    });
  });
});
