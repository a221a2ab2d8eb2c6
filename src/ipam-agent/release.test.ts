import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AgentRig, addressesOf, openFailing, type TestAgent } from "../../test/stand-in/ipam/agent-rig.ts";

let rig: AgentRig;
beforeEach(async () => {
  rig = await AgentRig.open();
});
afterEach(() => rig[Symbol.asyncDispose]());

const usedOf = (agent: TestAgent) =>
  [...agent.state.blocks.values()].reduce((sum, block) => sum + block.used, 0);

describe("DEL", () => {
  it("releases the addresses, succeeds when it is repeated, and asks the API server for nothing", async () => {
    const agent = await rig.agent();
    await agent.call({ verb: "ADD" });
    const before = rig.api.server.answers.length;
    for (let times = 0; times < 2; times++)
      expect(await agent.call({ verb: "DEL" })).toEqual({ exitCode: 0, json: {} });
    expect(usedOf(agent)).toBe(0);
    expect(rig.api.server.answers.length).toBe(before);
  });

  it("of an older sandbox that comes late frees nothing of the newer one", async () => {
    const agent = await rig.agent();
    await agent.call({ verb: "ADD", container: "old", pod: "p1" });
    const newer = await agent.call({ verb: "ADD", container: "new", pod: "p1" });
    await agent.call({ verb: "DEL", container: "old", pod: "p1" });
    expect(await agent.call({ verb: "ADD", container: "new", pod: "p1" })).toEqual(newer);
    expect(usedOf(agent)).toBe(1);
  });

  it("that started before the ADD of the same sandbox frees nothing", async () => {
    const agent = await rig.agent();
    const startedAtMs = rig.api.clock.monotonic();
    await agent.call({ verb: "ADD", startedAtMs });
    await agent.call({ verb: "DEL", startedAtMs: startedAtMs - 1 });
    expect(usedOf(agent)).toBe(1);
  });

  it.each([
    ["is empty", ""],
    ["is not JSON", "{"],
    ["has no name", "{}"],
  ])("releases by sandbox and interface when stdin %s", async (_what, stdin) => {
    const agent = await rig.agent();
    await agent.call({ verb: "ADD" });
    const env = { CNI_COMMAND: "DEL", CNI_CONTAINERID: "c1", CNI_IFNAME: "net1" };
    const request = { env, stdin: Buffer.from(stdin), startedAtMs: rig.api.clock.monotonic() };
    expect(await agent.handle(request, AbortSignal.timeout(60_000))).toMatchObject({
      exitCode: 0,
      stdout: "",
    });
    expect(usedOf(agent)).toBe(0);
  });

  it("of another network frees nothing", async () => {
    const agent = await rig.agent();
    await agent.call({ verb: "ADD" });
    await agent.call({ verb: "DEL", network: "other" });
    expect(usedOf(agent)).toBe(1);
  });

  it("succeeds when the journal cannot be written, and the address stays taken until it is collected", async () => {
    const disk = { isFull: false };
    const agent = await rig.agent({ openJournal: openFailing(disk) });
    await agent.call({ verb: "ADD" });
    disk.isFull = true;
    expect(await agent.call({ verb: "DEL" })).toEqual({ exitCode: 0, json: {} });
    expect(usedOf(agent)).toBe(1);
    disk.isFull = false;
    rig.netns.clear();
    await rig.minutes(3);
    await rig.api.until(() => usedOf(agent) === 0, 1_000);
  });
});

describe("CHECK", () => {
  it("succeeds with ADD's result, and names what is missing of it", async () => {
    const agent = await rig.agent();
    const { json } = await agent.call({ verb: "ADD" });
    expect(await agent.call({ verb: "CHECK", config: { prevResult: json } })).toEqual({
      exitCode: 0,
      json: {},
    });
    const wrong = await agent.call({ verb: "CHECK", config: { prevResult: { ips: [] } } });
    expect(wrong.json).toMatchObject({
      code: 106,
      msg: expect.stringContaining(String(json.ips?.[0]?.address)),
    });
    await agent.call({ verb: "DEL" });
    const gone = await agent.call({ verb: "CHECK", config: { prevResult: json } });
    expect(gone.json).toMatchObject({ code: 106, msg: expect.stringContaining("has no addresses") });
  });
});

describe("GC", () => {
  it("releases what the runtime does not name, of this network only, and not what was added after it started", async () => {
    const agent = await rig.agent();
    const startedAtMs = rig.api.clock.monotonic();
    for (const container of ["c1", "c2"]) await agent.call({ verb: "ADD", container });
    await agent.call({ verb: "ADD", container: "c3", network: "other" });
    await rig.api.clock.advance(1_000);
    await agent.call({ verb: "ADD", container: "c4" });
    const valid = { "cni.dev/valid-attachments": [{ containerID: "c1", ifname: "net1" }] };
    expect(await agent.call({ verb: "GC", config: valid, startedAtMs })).toEqual({ exitCode: 0, json: {} });
    expect([...agent.state.allocations.values()].map(({ containerId }) => containerId)).toEqual([
      "c1",
      "c3",
      "c4",
    ]);
  });

  it("releases nothing without a list", async () => {
    const agent = await rig.agent();
    await agent.call({ verb: "ADD" });
    expect((await agent.call({ verb: "GC" })).exitCode).toBe(0);
    expect(usedOf(agent)).toBe(1);
    expect((await agent.call({ verb: "GC", cniVersion: "1.0.0" })).json.code).toBe(1);
  });
});

describe("STATUS", () => {
  it("is fine while an address is free or a block may be taken, and takes none", async () => {
    const agent = await rig.agent();
    expect(await agent.call({ verb: "STATUS" })).toEqual({ exitCode: 0, json: {} });
    expect(rig.blocks).toEqual([]);
  });

  it("says with the reason that a pool cannot give an address", async () => {
    rig.pool("tiny", { subnets: [{ cidr: "10.1.0.0/30" }] });
    const agent = await rig.agent();
    await rig.api.until(() => agent.state.pools.has("tiny"));
    for (const container of ["c1", "c2", "c3"]) await agent.call({ verb: "ADD", container, pools: ["tiny"] });
    const full = await agent.call({ verb: "STATUS", pools: ["tiny"] });
    expect(full.json).toMatchObject({ code: 50, msg: expect.stringContaining("all 1 blocks") });
    const missing = await agent.call({ verb: "STATUS", pools: ["green"] });
    expect(missing.json).toMatchObject({ code: 50, msg: expect.stringContaining("no AddressPool green") });
    rig.apiAway();
    const away = await agent.call({ verb: "STATUS" });
    expect(away.json).toMatchObject({ code: 50, msg: expect.stringContaining("401") });
  });
});

describe("addresses whose DEL never came", () => {
  /** An allocation of a pod whose sandbox is gone. */
  async function leak(agent: TestAgent, container = "c1", pod = "p1"): Promise<void> {
    await agent.call({ verb: "ADD", container, pod });
    rig.netns.delete(`/run/netns/${container}`);
  }

  it("are released within minutes when pod and network namespace are gone", async () => {
    const agent = await rig.agent();
    await leak(agent);
    await rig.minutes(3);
    await rig.api.until(() => usedOf(agent) === 0, 1_000);
    expect(agent.leaks.collected).toBe(1);
  });

  it("stay while the network namespace is there, although the pod is gone", async () => {
    const agent = await rig.agent();
    await agent.call({ verb: "ADD" });
    await rig.minutes(6);
    expect(usedOf(agent)).toBe(1);
  });

  it("stay while the pod is there, by its own UID or that of a static pod, although the network namespace is gone", async () => {
    const agent = await rig.agent();
    rig.pod("p1");
    await leak(agent);
    await rig.minutes(6);
    expect(usedOf(agent)).toBe(1);
    expect(agent.leaks.suspects).toBe(1);
  });

  it("stay while the API server is away, and while a network namespace cannot be looked for", async () => {
    let isReadable = false;
    const agent = await rig.agent({
      hasNetns: async () => {
        if (isReadable) return false;
        throw new Error("EIO");
      },
    });
    await agent.call({ verb: "ADD" });
    await rig.minutes(4);
    expect(usedOf(agent)).toBe(1);
    isReadable = true;
    const back = rig.apiAway();
    await rig.minutes(4);
    expect(usedOf(agent)).toBe(1);
    back();
    await rig.minutes(2);
    await rig.api.until(() => usedOf(agent) === 0, 1_000);
  });

  it("of a sandbox that was replaced are released although the pod is there, without the API server", async () => {
    const agent = await rig.agent();
    rig.pod("p1");
    await leak(agent, "old");
    await rig.api.clock.advance(10);
    const newer = await agent.call({ verb: "ADD", container: "new" });
    rig.apiAway();
    await rig.minutes(3);
    await rig.api.until(() => usedOf(agent) === 1, 1_000);
    expect(await agent.call({ verb: "ADD", container: "new" })).toEqual(newer);
  });

  it("stay when the runtime named no pod", async () => {
    const agent = await rig.agent();
    await agent.call({ verb: "ADD", env: { CNI_ARGS: "" } });
    rig.netns.clear();
    await rig.minutes(6);
    expect(usedOf(agent)).toBe(1);
  });
});

describe("blocks", () => {
  it("are given back when they have been empty for five minutes, but for what the pool needs here", async () => {
    const agent = await rig.agent();
    const containers = Array.from({ length: 40 }, (_, index) => `c${index}`);
    for (const container of containers) await agent.call({ verb: "ADD", container });
    expect(rig.blocks.length).toBeGreaterThan(3);
    for (const container of containers.slice(1)) await agent.call({ verb: "DEL", container });
    await rig.minutes(4);
    expect(rig.blocks.length).toBeGreaterThan(3);
    await rig.minutes(4);
    await rig.api.until(() => rig.blocks.length <= 2, 1_000);
    await rig.minutes(10);
    expect(rig.blocks.length).toBeGreaterThanOrEqual(1);
    await rig.api.until(() => agent.state.blocks.size === rig.blocks.length);
    expect(addressesOf(await agent.call({ verb: "ADD", container: "c0" }))).toHaveLength(1);
  });

  it("that are being given back are finished by the next agent, and never used again meanwhile", async () => {
    const agent = await rig.agent();
    const containers = Array.from({ length: 40 }, (_, index) => `c${index}`);
    for (const container of containers) await agent.call({ verb: "ADD", container });
    for (const container of containers.slice(1)) await agent.call({ verb: "DEL", container });
    rig.api.server.verbs.delete("delete");
    await rig.minutes(8);
    await rig.api.until(
      () => [...agent.state.blocks.values()].some(({ entry }) => entry.state === "releasing"),
      1_000,
    );
    const releasing = [...agent.state.blocks.values()].filter(({ entry }) => entry.state === "releasing");
    await rig.crash(agent);
    const next = await rig.agent();
    for (const container of containers.slice(0, 10)) await next.call({ verb: "ADD", container });
    for (const { name } of releasing) expect(next.state.blocks.get(name)?.used).toBe(0);
    rig.api.server.verbs.add("delete");
    await rig.minutes(2);
    await rig.api.until(
      () => !rig.blocks.some(({ metadata }) => releasing.some(({ name }) => name === metadata.name)),
      1_000,
    );
  });

  it("show in their status how many addresses are in use, written every five minutes where that has changed", async () => {
    const agent = await rig.agent();
    for (const container of ["c1", "c2", "c3"]) await agent.call({ verb: "ADD", container });
    const used = () => rig.blocks.map(({ status }) => (status as { used?: number } | undefined)?.used);
    await rig.minutes(4);
    expect(used()).toEqual([undefined]);
    await rig.minutes(2);
    await rig.api.until(() => used()[0] === 3, 1_000);
    const before = rig.writes.length;
    await rig.minutes(11);
    expect(rig.writes.slice(before)).toEqual([]);
  });
});
