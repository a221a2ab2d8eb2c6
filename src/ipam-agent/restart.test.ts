import { appendFile, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AgentRig, addressesOf, openFailing, type TestAgent } from "../../test/stand-in/ipam/agent-rig.ts";

let rig: AgentRig;
beforeEach(async () => {
  rig = await AgentRig.open();
});
afterEach(() => rig[Symbol.asyncDispose]());

const journalOf = (node = "n1") => join(rig.directory, node, "journal");
const ownerOf = (block: (typeof rig.blocks)[number] | undefined) =>
  (block?.["spec"] as { owner?: { uid?: string; journal?: string } } | undefined)?.owner;

/** Replaces a block's spec, as another program would. */
function changeBlock(name: string, change: object): void {
  const block = rig.api.server.store.get("addressblocks", name);
  const spec = { ...(block["spec"] as object), ...change };
  rig.api.server.store.update("addressblocks", name, { ...block, spec });
}

const isLost = (agent: TestAgent, name: string) => agent.state.blocks.get(name)?.entry.state === "lost";

describe("an agent that is restarted", () => {
  it("serves without the API server, with pools, spaces and blocks from its disk", async () => {
    const agent = await rig.agent();
    const first = await agent.call({ verb: "ADD" });
    await rig.crash(agent);
    rig.apiAway();
    const next = await rig.startAgent();
    expect(await next.call({ verb: "ADD" })).toEqual(first);
    expect(addressesOf(await next.call({ verb: "ADD", container: "c2" }))).toHaveLength(1);
  });

  it("adopts a block that was created before the crash, and was not in the journal yet", async () => {
    const disk = { isFull: true, forKeys: "block/" };
    const agent = await rig.agent({ openJournal: openFailing(disk) });
    expect((await agent.call({ verb: "ADD" })).json.code).toBe(116);
    expect(rig.blocks).toHaveLength(1);
    expect(agent.state.blocks.size).toBe(0);
    await rig.crash(agent);
    const next = await rig.agent();
    await rig.api.until(() => next.state.blocks.size === 1);
    expect((await next.call({ verb: "ADD" })).exitCode).toBe(0);
    expect(rig.blocks).toHaveLength(1);
  });

  it("after a create whose answer was lost uses that block, and takes no second one", async () => {
    const agent = await rig.agent();
    // The node is read, and then the block is created.
    rig.api.server.illnesses.push(undefined, { kind: "half" });
    const added = agent.call({ verb: "ADD" });
    await rig.api.until(() => agent.state.allocations.size === 1, 1_000);
    expect((await added).exitCode).toBe(0);
    expect(rig.blocks).toHaveLength(1);
  });

  it("does not start with the journal of a newer release", async () => {
    const agent = await rig.agent();
    await rig.crash(agent);
    const [header = "", ...lines] = (await readFile(journalOf(), "utf8")).split("\n");
    await writeFile(journalOf(), [header.replace('"version":1', '"version":2'), ...lines].join("\n"));
    await expect(rig.startAgent()).rejects.toMatchObject({ code: "record-unreadable" });
  });
});

describe("after a reboot", () => {
  it("no address is handed out before the API server has confirmed the blocks", async () => {
    const agent = await rig.agent();
    await agent.call({ verb: "ADD" });
    await rig.crash(agent);
    const back = rig.apiAway();
    const next = await rig.startAgent({ bootId: "boot-2" });
    expect((await next.call({ verb: "ADD", container: "c2" })).json).toMatchObject({
      code: 11,
      msg: expect.stringContaining("this node's blocks have yet to be confirmed after its boot"),
    });
    back();
    await rig.api.until(() => next.state.isConfirmed, 1_000);
    expect((await next.call({ verb: "ADD", container: "c2" })).exitCode).toBe(0);
  });

  it("a block that was given to another node meanwhile is not used any more", async () => {
    const agent = await rig.agent();
    await agent.call({ verb: "ADD" });
    await rig.crash(agent);
    const [block] = rig.blocks;
    const name = String(block?.metadata.name);
    changeBlock(name, { owner: { kind: "Node", name: "n2", uid: "u2", journal: "j2" } });
    const next = await rig.agent({ bootId: "boot-2" });
    expect(isLost(next, name)).toBe(true);
    const given = addressesOf(await next.call({ verb: "ADD", container: "c2" }));
    const prefix = next.state.blocks.get(name)?.prefix.value ?? 0n;
    const last = Number(given[0]?.split("/")[0]?.split(".")[3]);
    expect(last < Number(prefix & 255n) || last > Number(prefix & 255n) + 15).toBe(true);
  });
});

describe("a block", () => {
  it.each([
    ["is quarantined", { state: "Quarantined" }],
    ["has another owner", { owner: { kind: "Foreign" } }],
  ])("that %s in the API is not used any more, and what runs keeps its address", async (_what, change) => {
    const agent = await rig.agent();
    const first = await agent.call({ verb: "ADD" });
    const name = String(rig.blocks[0]?.metadata.name);
    changeBlock(name, change);
    await rig.api.until(() => isLost(agent, name));
    expect(await agent.call({ verb: "ADD" })).toEqual(first);
    await agent.call({ verb: "ADD", container: "c2" });
    expect(agent.state.blocks.get(name)?.used).toBe(1);
    expect(rig.api.logged).toContain("error a block is lost, nothing more is handed out of it");
    await agent.call({ verb: "DEL" });
    await rig.minutes(2);
    await rig.api.until(() => !agent.state.blocks.has(name), 1_000);
  });

  it("that was deleted is not used any more", async () => {
    const agent = await rig.agent();
    await agent.call({ verb: "ADD" });
    const name = String(rig.blocks[0]?.metadata.name);
    rig.api.server.store.remove("addressblocks", name, {});
    await rig.api.until(() => isLost(agent, name));
  });

  it("that an old event of the watch shows as gone is used again after a fresh read", async () => {
    const agent = await rig.agent();
    await agent.call({ verb: "ADD" });
    const [block] = rig.blocks;
    rig.api.server.sendRaw(`${JSON.stringify({ type: "DELETED", object: block })}\n`);
    const held = agent.state.blocks.get(String(block?.metadata.name));
    await rig.api.until(() => held?.isSuspended === true);
    await rig.api.until(() => held?.isSuspended === false);
    expect(held?.entry.state).toBe("bound");
  });
});

describe("a node whose Node object was created again", () => {
  it("uses no block of the earlier one, and takes new ones for the new UID", async () => {
    const agent = await rig.agent();
    await agent.call({ verb: "ADD" });
    const [name, uid] = [String(rig.blocks[0]?.metadata.name), ownerOf(rig.blocks[0])?.uid];
    await rig.crash(agent);
    rig.api.server.store.remove("nodes", "n1", {});
    const node = rig.api.server.store.create("nodes", { metadata: { name: "n1" } });
    const next = await rig.agent({ bootId: "boot-2" });
    await next.call({ verb: "ADD", container: "c2" });
    expect(isLost(next, name)).toBe(true);
    expect(next.state.blocks.get(name)?.used).toBe(1);
    expect(rig.blocks.map((block) => ownerOf(block)?.uid).sort()).toEqual([uid, node.metadata.uid].sort());
    expect(rig.api.logged).toContain("error this node's Node object was created again");
  });

  it("is noticed when the next block is taken, also without a restart", async () => {
    const agent = await rig.agent();
    await agent.call({ verb: "ADD" });
    const name = String(rig.blocks[0]?.metadata.name);
    rig.api.server.store.remove("nodes", "n1", {});
    rig.api.server.store.create("nodes", { metadata: { name: "n1" } });
    for (let index = 0; index < 16; index++) await agent.call({ verb: "ADD", container: `n${index}` });
    await rig.api.until(() => isLost(agent, name));
  });
});

describe("a node whose disk was lost", () => {
  async function loseDisk(agent: TestAgent): Promise<void> {
    await rig.crash(agent);
    await rm(join(rig.directory, "n1"), { recursive: true });
  }

  it("lets its blocks rest until the pods that were there are gone, and then uses them again", async () => {
    const agent = await rig.agent();
    rig.pod("p1");
    await agent.call({ verb: "ADD", pod: "p1" });
    const [name, journal] = [String(rig.blocks[0]?.metadata.name), ownerOf(rig.blocks[0])?.journal];
    await loseDisk(agent);
    rig.pod("host", "n1", { hostNetwork: true });
    rig.pod("agent");
    rig.pod("elsewhere", "n2");
    const next = await rig.agent({
      ownPodUid: rig.api.server.store.get("pods", "agent").metadata.uid,
    });
    await next.call({ verb: "ADD", container: "c2", pod: "p2" });
    expect(next.state.blocks.has(name)).toBe(false);
    expect(rig.blocks).toHaveLength(2);
    rig.pod("p2");
    await rig.minutes(5);
    expect(next.state.blocks.has(name)).toBe(false);
    rig.netns.delete("/run/netns/c1");
    await rig.minutes(2);
    expect(next.state.identity.survivors).toEqual(["p1"]);
    rig.api.server.store.remove("pods", "p1", {});
    await rig.minutes(1);
    expect(next.state.blocks.has(name)).toBe(false);
    await rig.minutes(2);
    await rig.api.until(() => next.state.blocks.get(name)?.isUsable === true, 1_000);
    const taken = rig.blocks.find(({ metadata }) => metadata.name === name);
    expect(ownerOf(taken)?.journal).toBe(next.state.identity.journal);
    expect(ownerOf(taken)?.journal).not.toBe(journal);
  });

  it("does not take its blocks while pods cannot be listed", async () => {
    const agent = await rig.agent();
    rig.pod("p1");
    await agent.call({ verb: "ADD", pod: "p1" });
    const name = String(rig.blocks[0]?.metadata.name);
    await loseDisk(agent);
    const next = await rig.agent();
    rig.api.server.store.remove("pods", "p1", {});
    rig.apiAway();
    await rig.minutes(5);
    expect(next.state.identity.survivors).toEqual(["p1", "/run/netns/c1"]);
    expect(next.state.blocks.has(name)).toBe(false);
  });

  it("lets its blocks rest while network namespaces cannot be listed, and hands out of others", async () => {
    const agent = await rig.agent();
    await agent.call({ verb: "ADD" });
    const name = String(rig.blocks[0]?.metadata.name);
    await loseDisk(agent);
    rig.netns.clear();
    let isMounted = false;
    const listNetns = async () => {
      if (!isMounted) throw new Error("EIO");
      return [];
    };
    const next = await rig.agent({ listNetns });
    expect((await next.call({ verb: "ADD", container: "c2" })).exitCode).toBe(0);
    await rig.minutes(3);
    expect(next.state.blocks.has(name)).toBe(false);
    isMounted = true;
    await rig.minutes(1);
    await rig.api.until(() => next.state.blocks.get(name)?.isUsable === true, 1_000);
  });

  it("waits for a pod that was deleted by force, and still runs", async () => {
    const agent = await rig.agent();
    await agent.call({ verb: "ADD" });
    const name = String(rig.blocks[0]?.metadata.name);
    await loseDisk(agent);
    const next = await rig.agent();
    await rig.minutes(5);
    expect(next.state.blocks.has(name)).toBe(false);
    rig.netns.delete("/run/netns/c1");
    await rig.minutes(3);
    await rig.api.until(() => next.state.blocks.get(name)?.isUsable === true, 1_000);
  });

  it("takes its blocks over at once where no pod is left, and lets their addresses rest, also after a restart", async () => {
    const agent = await rig.agent();
    await agent.call({ verb: "ADD" });
    const name = String(rig.blocks[0]?.metadata.name);
    await loseDisk(agent);
    rig.netns.clear();
    const next = await rig.agent();
    const old = () => next.state.blocks.get(name);
    expect(old()?.isUsable).toBe(true);
    expect((await next.call({ verb: "ADD", container: "c2" })).exitCode).toBe(0);
    expect(rig.blocks).toHaveLength(2);
    expect(old()?.used).toBe(0);
    await rig.crash(next);
    const last = await rig.agent();
    await last.call({ verb: "ADD", container: "c3" });
    expect(last.state.blocks.get(name)?.used).toBe(0);
    await rig.api.clock.advance(60_000);
    for (let index = 0; index < 15; index++) await last.call({ verb: "ADD", container: `n${index}` });
    expect(last.state.blocks.get(name)?.used).toBeGreaterThan(0);
    expect(rig.blocks).toHaveLength(2);
  });

  it("is treated the same when an entry of the journal is damaged, and what is legible stays", async () => {
    const agent = await rig.agent();
    rig.pod("p1");
    const first = await agent.call({ verb: "ADD", pod: "p1" });
    await agent.call({ verb: "ADD", container: "c2", pod: "p1" });
    const name = String(rig.blocks[0]?.metadata.name);
    await rig.crash(agent);
    const text = await readFile(journalOf(), "utf8");
    const lines = text
      .split("\n")
      .map((line) => (line.includes("net/c2/net1") ? `0${line.slice(1, -9)}` : line));
    await writeFile(journalOf(), lines.join("\n"));
    const next = await rig.agent();
    expect(isLost(next, name)).toBe(true);
    expect(await next.call({ verb: "ADD", pod: "p1" })).toEqual(first);
    await next.call({ verb: "ADD", container: "c3", pod: "p3" });
    expect(next.state.blocks.get(name)?.used).toBe(1);
    // The damage is known by now: a further start changes nothing.
    const { journal } = next.state.identity;
    await rig.crash(next);
    const last = await rig.agent();
    expect(last.state.identity.journal).toBe(journal);
    rig.api.server.store.remove("pods", "p1", {});
    rig.netns.delete("/run/netns/c2");
    await rig.minutes(3);
    await rig.api.until(() => last.state.blocks.get(name)?.isUsable === true, 1_000);
    expect(await last.call({ verb: "ADD", pod: "p1" })).toEqual(first);
  });

  it("is not assumed for an entry that a power cut left unfinished: it was never answered", async () => {
    const agent = await rig.agent();
    await agent.call({ verb: "ADD" });
    const { journal } = agent.state.identity;
    await rig.crash(agent);
    await appendFile(journalOf(), '0000 {"key":"allo');
    const next = await rig.agent();
    expect(next.state.identity.journal).toBe(journal);
  });
});
