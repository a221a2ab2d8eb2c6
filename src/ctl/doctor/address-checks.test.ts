import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { checkedHost } from "../../../test/stand-in/doctor/checked-host.ts";
import { ServedAgent } from "../../../test/stand-in/ipam/served-agent.ts";
import { parseConfig } from "../../config/load.ts";
import { addressesCheck } from "./address-checks.ts";
import { tried } from "./doctor.ts";

let served: ServedAgent;
beforeEach(async () => {
  served = await ServedAgent.start();
});
afterEach(() => served[Symbol.asyncDispose]());

/** Every finding as `verdict: what`; all that is not well has a cure. */
async function findings(version = "0.1.0"): Promise<readonly string[]> {
  const { directory } = served.rig;
  const places = { cniSocket: join(directory, "cni.sock"), recordsDirectory: directory };
  const pools = { p: { capacity: 1, dataplane: { type: "ovs-dpdk", bridge: "br0" } } };
  const config = parseConfig(JSON.stringify({ node: "n1", pools, ...places }), "test");
  const host = { ...checkedHost(directory), version };
  const found = await tried(() =>
    addressesCheck({ config, switches: [], host }, AbortSignal.timeout(30_000)),
  );
  for (const { verdict, cure } of found)
    if (verdict === "problem" || verdict === "warning") expect(cure).toMatch(/\w{3}/);
  return found.map(({ verdict, what }) => `${verdict}: ${what}`);
}

it("says what an agent works with", async () => {
  await served.add("web");
  expect(await findings()).toEqual(["ok: agent of release 0.1.0, up 0s, 1 block, 1 address in use"]);
  expect(await findings("0.2.0")).toContain("warning: this program is of release 0.2.0");
});

it("says whether the agent is off, or does not run", async () => {
  await served.stopServing();
  const stopped = expect.stringMatching(
    /^problem: the IPAM agent does not run on this node, .*status.sock\)$/,
  );
  expect(await findings()).toEqual([stopped]);
  await rm(served.socketPath, { force: true });
  expect(await findings()).toEqual(["ok: off"]);
  await mkdir(join(served.rig.directory, "ipam"));
  expect(await findings()).toEqual([stopped]);
});

it("names an API server that does not answer", async () => {
  served.rig.api.server.tokens.clear();
  expect(await findings()).toContainEqual(
    expect.stringMatching(/^problem: the API server cannot be asked: .* 401/),
  );
});

it("names blocks that are not confirmed, and pools that are nearly or wholly used up", async () => {
  const { store } = served.rig.api.server;
  const counts = { total: 253, inBlocks: 253, used: 253, free: 0, blocks: 16 };
  const condition = (type: string, message: string) => {
    const rest = { reason: "r", lastTransitionTime: "2026-01-01T00:00:00Z" };
    const status = { ...counts, conditions: [{ type, status: "True", message, ...rest }] };
    store.update("addresspools", "blue", { ...store.get("addresspools", "blue"), status }, "status");
  };
  condition("NearlyFull", "83 % are used");
  expect(await findings()).toContain("warning: pool blue: 83 % are used");
  condition("Exhausted", "all are used");
  await served.agent.state.setIdentity({ bootId: "an earlier one" });
  await served.rig.api.clock.advance(10_000);
  expect(await findings()).toEqual([
    expect.any(String),
    expect.stringContaining("problem: the API server has not confirmed this node's blocks"),
    "problem: pool blue: all are used",
  ]);
});

it("names an address that has been leaked for ten minutes, and not one that is about to be released", async () => {
  await served.add("web");
  const { rig, agent } = served;
  rig.netns.clear();
  await rig.api.until(() => agent.leaks.suspects > 0, 1_000);
  expect(await findings()).toHaveLength(1);
  await rig.api.clock.advance(601_000);
  expect(await findings()).toContainEqual(
    expect.stringMatching(/^warning: leaked: tenant\/web, net1: .*its pod still exists/),
  );
});
