import { rm } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ServedAgent } from "../../../test/stand-in/ipam/served-agent.ts";
import { leakedAddresses, nodeAddresses } from "../../../test/stand-in/records/node-addresses.ts";
import { nodeStatus } from "../../../test/stand-in/records/traced-interface.ts";
import { readAddresses } from "../read-addresses.ts";
import { agentPlace } from "../status-client.ts";
import { describeNode } from "./describe-node.ts";

describe("a node's addresses as the page shows them", () => {
  it("has each pool with its addresses on this node and in the cluster, and what rests", async () => {
    const { view } = await describeNode(nodeStatus(), nodeAddresses());
    expect(view.health).toBe("healthy");
    expect(view.addresses).toEqual({
      pools: [{ name: "blue-v4", blocks: 2, used: 20, free: 11, resting: 1, cluster: "380 of 1007 (37%)" }],
      ...{
        morePools: 0,
        leaks: [],
        moreLeaks: 0,
        resting: "1 address rests after its release for 42s",
      },
    });
  });

  it("has leaked addresses with the reason, and at most 20 of them", async () => {
    const evil = leakedAddresses({ network: "n", interface: "a\u001b]0;\u202e" });
    const leaks = [evil, ...new Array(24).fill(leakedAddresses())];
    const { view } = await describeNode(nodeStatus(), nodeAddresses({ leaks }));
    expect(view.addresses?.leaks[0]).toEqual({
      what: "shop/web-0, a\\u001b]0;\\u202e: 10.40.0.17/22",
      why: expect.stringContaining("its pod still exists"),
    });
    expect([view.addresses?.leaks.length, view.addresses?.moreLeaks]).toEqual([20, 5]);
    expect(view.health).toBe("healthy");
  });

  it("has no addresses on a node without an agent, and is broken where an agent does not answer", async () => {
    await using served = await ServedAgent.start();
    const { directory } = served.rig;
    const place = agentPlace({ cniSocket: join(directory, "cni.sock"), recordsDirectory: directory });
    const viewed = async () => {
      const reading = await readAddresses(place, AbortSignal.timeout(30_000));
      return (await describeNode(nodeStatus(), reading)).view;
    };
    expect((await viewed()).addresses?.pools).toMatchObject([{ name: "blue", blocks: 0 }]);
    await served.stopServing();
    expect(await viewed()).toMatchObject({
      health: "broken",
      problems: [
        { what: expect.stringContaining("the IPAM agent does not run"), look: "vhostuserctl doctor" },
      ],
    });
    await rm(served.socketPath, { force: true });
    expect(await viewed()).toMatchObject({ health: "healthy", problems: [] });
    expect((await viewed()).addresses).toBeUndefined();
  });

  it("is broken with a pool that is used up, and not with one that soon will be", async () => {
    const [pool] = nodeAddresses().pools;
    if (pool === undefined) throw new Error("the example has a pool");
    const viewed = async (exhausted: boolean) => {
      const warning = { exhausted, message: "all 1007 addresses are used" };
      return (await describeNode(nodeStatus(), nodeAddresses({ pools: [{ ...pool, warning }] }))).view;
    };
    expect((await viewed(false)).problems).toEqual([]);
    expect((await viewed(true)).problems).toEqual([
      { what: "pool blue-v4: all 1007 addresses are used", look: "vhostuserctl ip pools", pod: undefined },
    ]);
  });
});
