import { stat } from "node:fs/promises";
import { request } from "node:http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ServedAgent } from "../../test/stand-in/ipam/served-agent.ts";
import { describeInterfaces } from "./describe-addresses.ts";
import type { Allocation } from "./journal-entries.ts";

let served: ServedAgent;
beforeEach(async () => {
  served = await ServedAgent.start();
});
afterEach(() => served[Symbol.asyncDispose]());

function ask(path: string, method = "GET"): Promise<{ readonly status: number; readonly body: string }> {
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath: served.socketPath, path, method, agent: false }, (response) => {
      let body = "";
      response.setEncoding("utf8").on("data", (chunk) => {
        body += chunk;
      });
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body }));
    });
    sent.on("error", reject).end();
  });
}

describe("the agent's status socket", () => {
  it("is for root alone and read-only", async () => {
    const { mode, uid } = await stat(served.socketPath);
    expect([mode & 0o777, uid]).toEqual([0o600, process.getuid?.()]);
    expect((await ask("/v1/addresses", "POST")).status).toBe(405);
    expect((await ask("/v1/who?address=nonsense")).status).toBe(400);
    expect((await ask("/v1/nothing")).status).toBe(404);
  });

  it("reads pools and pods once for requests within five seconds, and writes nothing", async () => {
    await served.add("web");
    const { answers } = served.rig.api.server;
    const before = answers.length;
    const [one, other] = await Promise.all([ask("/v1/addresses"), ask("/v1/addresses")]);
    expect(one.body).toBe(other.body);
    expect(answers.slice(before)).toEqual(["GET 200", "GET 200"]);
    await served.rig.api.clock.advance(4_000);
    await ask("/v1/addresses");
    expect(answers.slice(before)).toHaveLength(2);
    await served.rig.api.clock.advance(1_000);
    await ask("/v1/addresses");
    expect(answers.slice(before)).toHaveLength(4);
  });

  it("asks the API server for one address by name, and not for one of its own", async () => {
    const address = await served.add("web");
    const { answers } = served.rig.api.server;
    const before = answers.length;
    await ask(`/v1/who?address=${address}`);
    expect(answers.slice(before)).toEqual([]);
    await ask("/v1/who?address=192.0.2.1");
    expect(answers.slice(before)).toEqual(["GET 404"]);
  });

  it("answers with at most 1,000 interfaces, and says how many are left out", () => {
    const one: Allocation = {
      ...{
        kind: "allocation",
        network: "net",
        containerId: "c",
        interfaceName: "net1",
        netns: "/run/netns/c",
      },
      ...{ startedAtMs: 0, bootId: "an earlier one", addresses: [], routes: [] },
    };
    const { agent, rig } = served;
    const source = { agent, clock: rig.api.clock };
    const { interfaces, leftOut } = describeInterfaces(new Array<Allocation>(1_005).fill(one), source);
    expect([interfaces.length, leftOut]).toEqual([1_000, 5]);
    expect(interfaces[0]).not.toHaveProperty("createdAt");
  });
});
