// Defects of other IPAM programs, by the issue that describes each: the same circumstances, and what must not happen.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AgentRig, addressesOf, type TestAgent } from "../../test/stand-in/ipam/agent-rig.ts";

let rig: AgentRig;
beforeEach(async () => {
  rig = await AgentRig.open();
});
afterEach(() => rig[Symbol.asyncDispose]());

const usedOf = (agent: TestAgent) =>
  [...agent.state.blocks.values()].reduce((sum, block) => sum + block.used, 0);
const argsOf = (name: string, uid: string) => ({
  CNI_ARGS: `K8S_POD_NAMESPACE=tenant;K8S_POD_NAME=${name};K8S_POD_UID=${uid}`,
});

describe("duplicates", () => {
  it("whereabouts #110: many pods at once on several nodes get different addresses", async () => {
    for (const node of ["n3", "n4"]) rig.api.server.store.create("nodes", { metadata: { name: node } });
    const agents = await Promise.all(["n1", "n2", "n3", "n4"].map((node) => rig.agent({ node })));
    const answers = await Promise.all(
      Array.from({ length: 160 }, (_, index) =>
        agents[index % 4]?.call({ verb: "ADD", container: `c${index}`, pod: `p${index}` }),
      ),
    );
    const given = answers.flatMap((answer) => (answer === undefined ? [] : addressesOf(answer)));
    expect(given).toHaveLength(160);
    expect(new Set(given).size).toBe(160);
  });

  it("Cilium #41986: of nodes that want the last block at once, one gets it", async () => {
    rig.pool("last", { subnets: [{ cidr: "10.7.0.0/28" }] });
    const agents = await Promise.all(["n1", "n2"].map((node) => rig.agent({ node })));
    for (const agent of agents) await rig.api.until(() => agent.state.pools.has("last"));
    const codes = await Promise.all(
      agents.map(async (agent) => (await agent.call({ verb: "ADD", pools: ["last"] })).json.code ?? 0),
    );
    expect(codes.sort()).toEqual([0, 11]);
    expect(rig.blocks).toHaveLength(1);
  });

  it("whereabouts #97: pods with two interfaces of two networks, started at once, have different addresses in each", async () => {
    rig.pool("green", { subnets: [{ cidr: "10.8.0.0/24" }] });
    const agents = await Promise.all(["n1", "n2"].map((node) => rig.agent({ node })));
    for (const agent of agents) await rig.api.until(() => agent.state.pools.has("green"));
    const calls = agents.flatMap((agent, node) =>
      Array.from({ length: 24 }, (_, index) => {
        const pod = { container: `c${node}-${index >> 1}`, pod: `p${node}-${index >> 1}` };
        const pool = index % 2 === 0 ? "blue" : "green";
        return agent.call({ verb: "ADD", ...pod, ifname: `net${index % 2}`, network: pool, pools: [pool] });
      }),
    );
    const given = (await Promise.all(calls)).flatMap(addressesOf);
    expect(given).toHaveLength(48);
    expect(new Set(given).size).toBe(48);
  });

  it("Cilium #17277: no two nodes have the same block, although answers of the API server are lost", async () => {
    const agents = await Promise.all(["n1", "n2"].map((node) => rig.agent({ node })));
    const lost = [undefined, { kind: "half" }, undefined, { kind: "closed" }] as const;
    rig.api.server.illnesses.push(...lost, ...lost, ...lost);
    let isOver = false;
    const calls = agents.flatMap((agent, node) =>
      Array.from({ length: 40 }, (_, index) => agent.call({ verb: "ADD", container: `c${node}-${index}` })),
    );
    const answered = Promise.all(calls).finally(() => {
      isOver = true;
    });
    await rig.api.until(() => isOver, 500);
    const given = (await answered).flatMap(addressesOf);
    expect(given).toHaveLength(80);
    expect(new Set(given).size).toBe(80);
    const [first, second] = agents.map(({ state }) => new Set(state.blocks.keys()));
    expect(first?.isDisjointFrom(second ?? new Set())).toBe(true);
  });

  it("Calico #6244: a new machine with the name of one that is gone uses none of its addresses", async () => {
    const agent = await rig.agent();
    const old = addressesOf(await agent.call({ verb: "ADD" }));
    const blocks = [...agent.state.blocks.keys()];
    await rig.crash(agent);
    rig.api.server.store.remove("nodes", "n1", {});
    rig.api.server.store.create("nodes", { metadata: { name: "n1" } });
    const next = await rig.agent({ journal: "new machine", bootId: "boot-2" });
    for (let index = 0; index < 40; index++) {
      const given = addressesOf(await next.call({ verb: "ADD", container: `n${index}`, pod: `n${index}` }));
      expect(given).toHaveLength(1);
      expect(given).not.toEqual(old);
    }
    for (const name of blocks) expect(next.state.blocks.has(name)).toBe(false);
  });

  it("whereabouts #162, #176, #207: a pod that appears after the first check of its address keeps it", async () => {
    const agent = await rig.agent();
    await agent.call({ verb: "ADD", pod: "late" });
    rig.netns.clear();
    await rig.minutes(1);
    expect(agent.leaks.suspects).toBe(1);
    rig.pod("late");
    await rig.minutes(4);
    expect(usedOf(agent)).toBe(1);
  });
});

describe("addresses in use that were freed", () => {
  it("spiderpool #1187, #3778: a pod of the same name and another UID keeps its address when the old one's is freed", async () => {
    const agent = await rig.agent();
    await agent.call({ verb: "ADD", container: "old", env: argsOf("web-0", "uid-1") });
    rig.netns.delete("/run/netns/old");
    const env = argsOf("web-0", "uid-2");
    const newer = await agent.call({ verb: "ADD", container: "new", env });
    rig.api.server.store.create("pods", {
      metadata: { name: "web-0", namespace: "tenant", annotations: { "kubernetes.io/config.hash": "uid-2" } },
      spec: { nodeName: "n1" },
    });
    rig.netns.delete("/run/netns/new");
    await rig.minutes(4);
    expect(agent.leaks.collected).toBe(1);
    expect(await agent.call({ verb: "ADD", container: "new", env })).toEqual(newer);
  });

  it("Calico #5044: IPv6 addresses of pods that run are not collected", async () => {
    rig.pool("six", { subnets: [{ cidr: "fd00:0:0:1::/64" }] });
    const agent = await rig.agent();
    await rig.api.until(() => agent.state.pools.has("six"));
    const first = await agent.call({ verb: "ADD", pools: ["six"] });
    rig.pod("p1");
    rig.netns.clear();
    await rig.minutes(4);
    const config = { "cni.dev/valid-attachments": [{ containerID: "c1", ifname: "net1" }] };
    await agent.call({ verb: "GC", pools: ["six"], config });
    await rig.crash(agent);
    const next = await rig.agent();
    expect(await next.call({ verb: "ADD", pools: ["six"] })).toEqual(first);
  });
});

describe("leaks", () => {
  it("Calico #7839, #8548: addresses of an ADD whose caller died before the answer are collected", async () => {
    const agent = await rig.agent();
    await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        agent.call({ verb: "ADD", container: `c${index}`, pod: `p${index}` }),
      ),
    );
    rig.netns.clear();
    await rig.minutes(4);
    expect(usedOf(agent)).toBe(0);
  });

  it("kube-ovn #5367, #5654, spiderpool #412: pods that were deleted while the agent was away are collected", async () => {
    const agent = await rig.agent();
    rig.pod("p1");
    await agent.call({ verb: "ADD" });
    await rig.crash(agent);
    rig.api.server.store.remove("pods", "p1", {});
    rig.netns.clear();
    const next = await rig.agent();
    await rig.minutes(4);
    expect(usedOf(next)).toBe(0);
  });
});

describe("exhausted pools that have free addresses", () => {
  it("Cilium #46598, #47910: a block that another node gave back is used without a restart", async () => {
    rig.pool("last", { subnets: [{ cidr: "10.7.0.0/28" }] });
    const agent = await rig.agent();
    await rig.api.until(() => agent.state.pools.has("last"));
    const block = rig.put("addressblocks", "default.10-7-0-0.28", {
      ...{ space: "default", cidr: "10.7.0.0/28", state: "Bound" },
      owner: { kind: "Node", name: "n2", uid: "u2", journal: "j2" },
    });
    expect((await agent.call({ verb: "ADD", pools: ["last"] })).json.code).toBe(11);
    rig.api.server.store.remove("addressblocks", block.metadata.name, {});
    await rig.api.clock.advance(10_000);
    expect((await agent.call({ verb: "ADD", pools: ["last"] })).exitCode).toBe(0);
  });
});
