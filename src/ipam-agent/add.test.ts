import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AgentRig, addressesOf } from "../../test/stand-in/ipam/agent-rig.ts";

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
});
