import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AgentRig, addressesOf, type TestAgent } from "../../test/stand-in/ipam/agent-rig.ts";

let rig: AgentRig;
beforeEach(async () => {
  rig = await AgentRig.open();
});
afterEach(() => rig[Symbol.asyncDispose]());

const MINUTE_MS = 60_000;
const held = ({ state }: TestAgent) =>
  [...state.allocations.values()].map(({ containerId }) => containerId).sort();

describe("an address whose sandbox is gone without a DEL", () => {
  it("is released although its pod exists, when the pod's newer sandbox asks for one and gets none", async () => {
    rig.pool("one", { subnets: [{ cidr: "10.1.0.0/28", ranges: ["10.1.0.5"] }] });
    rig.pod("p1");
    const agent = await rig.agent();
    await rig.api.until(() => agent.state.pools.has("one"));
    const add = (container: string) => agent.call({ verb: "ADD", container, pools: ["one"] });
    expect(addressesOf(await add("c1"))).toHaveLength(1);
    rig.netns.delete("/run/netns/c1");
    await rig.api.clock.advance(1);
    expect((await add("c2")).json.code).toBe(11);
    await rig.api.until(() => held(agent).length === 0, MINUTE_MS);
    await rig.api.clock.advance(2 * MINUTE_MS);
    expect(addressesOf(await add("c3"))).toEqual(["10.1.0.5/28"]);
  });
});

describe("a block that was quarantined while its node was off", () => {
  const quarantine = () => {
    const [block] = rig.blocks;
    rig.api.server.store.merge("addressblocks", block?.metadata.name ?? "", {
      spec: { state: "Quarantined" },
    });
  };
  const states = () => rig.blocks.map(({ spec }) => (spec as { readonly state: string }).state);

  it("is taken back when the node runs again, with the addresses that rest", async () => {
    const agent = await rig.agent();
    const [first] = addressesOf(await agent.call({ verb: "ADD", container: "c1" }));
    await agent.call({ verb: "DEL", container: "c1" });
    await rig.crash(agent);
    quarantine();
    const next = await rig.agent({ bootId: "boot-2" });
    await rig.api.until(() => states()[0] === "Bound");
    const again = addressesOf(await next.call({ verb: "ADD", container: "c2" }));
    expect(rig.blocks).toHaveLength(1);
    expect(again).not.toEqual([first]);
  });

  it("is taken back by an agent that has forgotten it", async () => {
    const agent = await rig.agent();
    await agent.call({ verb: "ADD", container: "c1" });
    await agent.call({ verb: "DEL", container: "c1" });
    await rig.crash(agent);
    quarantine();
    // With the node's end its network namespaces are gone.
    rig.netns.clear();
    const next = await rig.agent({ bootId: "boot-2", journal: "another" });
    await rig.api.until(() => states()[0] === "Bound" && next.state.blocks.size === 1, MINUTE_MS);
  });
});
