import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  AgentRig,
  addressesOf,
  type IpamCall,
  openFailing,
  type TestAgent,
} from "../../test/stand-in/ipam/agent-rig.ts";
import { IpamCluster } from "../../test/stand-in/ipam/cluster.ts";
import type { KubeObject } from "../kube-api/client.ts";

let rig: AgentRig;
let cluster: IpamCluster;

beforeEach(async () => {
  rig = await AgentRig.open();
  cluster = new IpamCluster(rig.api.server);
});
afterEach(() => rig[Symbol.asyncDispose]());

/** An agent of a cluster whose pool `single` has two shared blocks; calls name that pool. */
async function started(
  more: object = {},
  options: Parameters<AgentRig["agent"]>[0] = {},
): Promise<TestAgent> {
  if (rig.api.server.store.find("addresspools", "single") === undefined) {
    rig.pool("single", {
      subnets: [{ cidr: "10.4.0.0/27", gateway: "10.4.0.1" }],
      mode: "PerAddress",
      ...more,
    });
    for (const block of ["10.4.0.0/28", "10.4.0.16/28"]) cluster.blockOf(block, { kind: "Shared" });
  }
  const agent = await rig.agent(options);
  await rig.api.until(() => agent.state.pools.size === 2);
  const { call } = agent;
  return Object.assign(agent, { call: (one: IpamCall) => call({ pools: ["single"], ...one }) });
}
const specs = () => rig.api.server.store.all("addressallocations").map(({ spec }) => spec as KubeObject);
const count = () => cluster.allocations.length;

describe("ADD of a pool of mode PerAddress", () => {
  it("creates the address' allocation, with one write, and gives the same again, also by the next agent without the API server", async () => {
    const agent = await started();
    const before = rig.writes.length;
    const answer = await agent.call({ verb: "ADD" });
    const [address = ""] = addressesOf(answer);
    expect(answer.json.ips).toEqual([
      { address: expect.stringMatching(/^10\.4\.0\.\d+\/27$/), gateway: "10.4.0.1" },
    ]);
    expect(rig.writes.slice(before)).toEqual(["POST 201"]);
    expect(specs()).toMatchObject([
      {
        ...{ pool: "single", address: address.split("/")[0], node: "n1" },
        owner: {
          kind: "Pod",
          namespace: "tenant",
          name: "p1",
          uid: "p1",
          interface: "net1",
          container: "c1",
        },
      },
    ]);
    await rig.crash(agent);
    const back = rig.apiAway();
    const next = await rig.startAgent();
    expect(addressesOf(await next.call({ verb: "ADD", pools: ["single"] }))).toEqual([address]);
    back();
    expect(count()).toBe(1);
  });

  it("says try again with the reason while no shared block has a free address, and while the API server is away", async () => {
    const agent = await started({ subnets: [{ cidr: "10.4.0.0/27", ranges: ["10.4.0.5", "10.4.0.20"] }] });
    for (const container of ["c1", "c2"])
      expect((await agent.call({ verb: "ADD", container })).exitCode).toBe(0);
    expect((await agent.call({ verb: "ADD", container: "c3" })).json).toMatchObject({
      ...{ code: 11, msg: expect.stringContaining("its 2 shared blocks have no free address") },
    });
    rig.apiAway();
    expect((await agent.call({ verb: "ADD", container: "c3" })).json).toMatchObject({ code: 11 });
  });

  it("gives a requested address, or refuses it with the reason", async () => {
    const agent = await started();
    const ask = (container: string, ip: string) =>
      agent.call({ verb: "ADD", container, config: { args: { cni: { ips: [ip] } } } });
    expect(addressesOf(await ask("c1", "10.4.0.9"))).toEqual(["10.4.0.9/27"]);
    expect((await ask("c2", "10.4.0.9")).json).toMatchObject({
      ...{ code: 118, msg: expect.stringContaining("Pod tenant/p1 has it") },
    });
  });

  it("refuses a runtime that names no pod, because the allocation names its owner", async () => {
    const agent = await started();
    expect((await agent.call({ verb: "ADD", env: { CNI_ARGS: "" } })).json).toMatchObject({
      msg: expect.stringContaining("the runtime named no pod"),
    });
    expect(count()).toBe(0);
  });

  it("beside a pool of blocks gives an address of each, and keeps none where one has none", async () => {
    const agent = await started();
    const pools = ["single", "blue"];
    expect(addressesOf(await agent.call({ verb: "ADD", pools }))).toHaveLength(2);
    rig.pool("none", { subnets: [{ cidr: "10.8.0.0/28" }], mode: "PerAddress" });
    await rig.api.until(() => agent.state.pools.size === 3);
    const failed = await agent.call({ verb: "ADD", container: "c2", pools: ["single", "none"] });
    expect(failed.json.code).toBe(11);
    await rig.minutes(1);
    await rig.api.until(() => count() === 1, 1_000);
  });
});

describe("an ADD that is interrupted", () => {
  it.each([
    ["the answer of the create is lost", "half"],
    ["the API server fails after the create", "after"],
    ["the journal cannot be written", "disk"],
  ])("keeps no address where %s", async (_, how) => {
    const disk = { isFull: false, forKeys: "allocation/" };
    const agent = await started({}, { openJournal: openFailing(disk) });
    if (how === "disk") disk.isFull = true;
    // Its allocations, the shared blocks and those of a block are listed before the create.
    const reads = [undefined, undefined, undefined];
    if (how === "half") rig.api.server.illnesses.push(...reads, { kind: "half" });
    if (how === "after") rig.api.server.illnesses.push(...reads, undefined, { kind: "status", status: 500 });
    expect((await agent.call({ verb: "ADD" })).exitCode).toBe(1);
    expect(count()).toBe(1);
    rig.pod("p1");
    disk.isFull = false;
    await rig.crash(agent);
    const next = await started();
    await rig.minutes(1);
    await rig.api.until(() => count() === 0, 1_000);
    await rig.minutes(2);
    expect(next.state.unusedShared.size).toBe(0);
  });
});

describe("DEL of a pool of mode PerAddress", () => {
  it("asks the API server for nothing, and the address is free after the cooldown, with one write", async () => {
    const agent = await started({ cooldownSeconds: 3_600 });
    await agent.call({ verb: "ADD" });
    const { length } = rig.api.server.answers;
    expect((await agent.call({ verb: "DEL" })).exitCode).toBe(0);
    expect(rig.api.server.answers).toHaveLength(length);
    await rig.minutes(2);
    expect(count()).toBe(1);
    const before = rig.writes.length;
    await rig.api.clock.advance(3_600_000);
    await rig.api.until(() => count() === 0, 1_000);
    expect(rig.writes.slice(before)).toEqual(["DELETE 200"]);
    await rig.minutes(2);
    expect(agent.state.unusedShared.size).toBe(0);
  });

  it("succeeds while the API server is away, and the next agent releases the address", async () => {
    const agent = await started();
    await agent.call({ verb: "ADD" });
    const back = rig.apiAway();
    expect((await agent.call({ verb: "DEL" })).exitCode).toBe(0);
    await rig.crash(agent);
    back();
    await started();
    await rig.minutes(2);
    await rig.api.until(() => count() === 0, 1_000);
  });

  it("of an older sandbox frees nothing of the newer one, which has another address", async () => {
    const agent = await started();
    const [one] = addressesOf(await agent.call({ verb: "ADD", container: "c1" }));
    const [other] = addressesOf(await agent.call({ verb: "ADD", container: "c2" }));
    expect(one).not.toBe(other);
    await agent.call({ verb: "DEL", container: "c1" });
    await rig.minutes(3);
    await rig.api.until(() => count() === 1, 1_000);
    expect(specs()).toMatchObject([{ owner: { container: "c2" } }]);
  });

  it("and GC and the collection of leaks release them, too", async () => {
    const agent = await started();
    for (const container of ["c1", "c2", "c3"]) await agent.call({ verb: "ADD", container, pod: container });
    rig.pod("c3");
    rig.netns.delete("/run/netns/c2");
    const attachments = [
      { containerID: "c2", ifname: "net1" },
      { containerID: "c3", ifname: "net1" },
    ];
    await agent.call({ verb: "GC", config: { "cni.dev/valid-attachments": attachments } });
    await rig.minutes(5);
    await rig.api.until(() => count() === 1, 1_000);
    expect(specs()).toMatchObject([{ owner: { container: "c3" } }]);
  });
});

describe("allocations that no journal knows, because the disk was lost", () => {
  it("stay until their pods are gone at two looks, and are free after the cooldown", async () => {
    const agent = await started();
    rig.pod("p1");
    await agent.call({ verb: "ADD" });
    await rig.crash(agent);
    await rm(join(rig.directory, "n1"), { recursive: true });
    await started();
    await rig.minutes(5);
    expect(count()).toBe(1);
    rig.api.server.store.remove("pods", "p1", {});
    await rig.minutes(2);
    expect(count()).toBe(1);
    await rig.minutes(2);
    await rig.api.until(() => count() === 0, 1_000);
  });
});

describe("sticky addresses", () => {
  const withMac = (mac: string) => ({ runtimeConfig: { mac } });

  it("come back with the MAC, on any node and after any time, and nothing else gets them", async () => {
    const agent = await started({ sticky: "MAC" });
    const other = await started({}, { node: "n2" });
    const first = await agent.call({ verb: "ADD", config: withMac("02:00:00:00:00:0A") });
    await agent.call({ verb: "DEL" });
    expect(specs()).toEqual([expect.objectContaining({ key: "tenant/02:00:00:00:00:0a" })]);
    expect(specs()[0]).not.toHaveProperty("owner");
    await rig.minutes(5);
    expect(addressesOf(await other.call({ verb: "ADD", container: "c2", pod: "p2" }))).not.toEqual(
      addressesOf(first),
    );
    const again = { verb: "ADD", container: "c3", pod: "p3", config: withMac("02:00:00:00:00:0a") };
    expect(addressesOf(await other.call(again))).toEqual(addressesOf(first));
    expect(specs()).toContainEqual(expect.objectContaining({ node: "n2", key: "tenant/02:00:00:00:00:0a" }));
  });

  it("come back with the key that the pod names, of its namespace", async () => {
    const agent = await started({ sticky: "Key" });
    const config = { args: { cni: { addressKey: "db-0" } } };
    const first = await agent.call({ verb: "ADD", config });
    await agent.call({ verb: "DEL" });
    const ofOther = "IgnoreUnknown=1;K8S_POD_NAMESPACE=other;K8S_POD_NAME=q;K8S_POD_UID=q";
    const foreign = await agent.call({ verb: "ADD", container: "c2", config, env: { CNI_ARGS: ofOther } });
    expect(addressesOf(foreign)).not.toEqual(addressesOf(first));
    expect(addressesOf(await agent.call({ verb: "ADD", container: "c3", pod: "p3", config }))).toEqual(
      addressesOf(first),
    );
  });

  it("wait for their key also where DEL came while the API server was away", async () => {
    const agent = await started({ sticky: "MAC" });
    const config = withMac("02:00:00:00:00:0a");
    const first = await agent.call({ verb: "ADD", config });
    const back = rig.apiAway();
    expect((await agent.call({ verb: "DEL" })).exitCode).toBe(0);
    back();
    await rig.minutes(1);
    await rig.api.until(() => !("owner" in (specs()[0] ?? {})), 1_000);
    expect(addressesOf(await agent.call({ verb: "ADD", container: "c2", config }))).toEqual(
      addressesOf(first),
    );
  });
});
