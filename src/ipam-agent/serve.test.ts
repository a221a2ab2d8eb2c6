import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { compileShim } from "../../scripts/build/compile-shim.ts";
import { startShim } from "../../test/shim/run-shim.ts";
import { AgentRig } from "../../test/stand-in/ipam/agent-rig.ts";
import { nodeAddressesShape } from "../status/addresses-shape.ts";
import { agentPlace, askAgent } from "../status/status-client.ts";
import { serveAgent } from "./serve.ts";

let rig: AgentRig;
let directory: string;
let executable: string;
beforeEach(async () => {
  rig = await AgentRig.open();
  directory = await mkdtemp(join(tmpdir(), "kvu-ipam-serve-"));
  executable = await compileShim({ executable: "kube-vhostuser-ipam", output: join(directory, "ipam") });
});
afterEach(async () => {
  await rig[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

/** Serves until `use` is over. */
async function whileServing(use: (url: string) => Promise<void>): Promise<void> {
  const stop = new AbortController();
  const urls: string[] = [];
  const serving = serveAgent({
    node: "n1",
    version: "0.1.0",
    stateDirectory: join(directory, "state"),
    socketPath: join(directory, "ipam.sock"),
    netnsDirectory: directory,
    listen: { address: "127.0.0.1", port: 0 },
    serviceAccountDirectory: rig.api.serviceAccountDirectory,
    apiServer: undefined,
    apiServerUrl: rig.api.server.url,
    podUid: undefined,
    logger: rig.api.logger,
    signal: stop.signal,
    onServing: (url) => urls.push(url),
  });
  await Promise.race([serving, rig.api.until(() => urls.length > 0)]);
  await use(urls[0] ?? "");
  stop.abort("SIGTERM");
  await serving;
}

/** What the executable does when a CNI plugin delegates to it. */
async function call(verb: string, container = "c1") {
  const socket = { KUBE_VHOSTUSER_IPAM_SOCKET: join(directory, "ipam.sock") };
  const target = { CNI_CONTAINERID: container, CNI_IFNAME: "net1", CNI_NETNS: `/run/netns/${container}` };
  const ipam = { type: "kube-vhostuser-ipam", pools: ["blue"] };
  const stdin = JSON.stringify({ cniVersion: "1.0.0", name: "net", type: "macvlan", ipam });
  const env = { ...socket, ...target, CNI_COMMAND: verb };
  const { code, stdout } = await startShim({ executable }, { env, stdin }).ended;
  return { code, json: stdout === "" ? undefined : JSON.parse(stdout) };
}

describe("the agent behind its executable", () => {
  it("gives an address, the same to the next agent's caller, and takes it back", async () => {
    let given: unknown;
    await whileServing(async () => {
      const { code, json } = await call("ADD");
      expect(json).toEqual({
        cniVersion: "1.0.0",
        ips: [{ address: expect.any(String), gateway: "10.0.0.1" }],
      });
      expect(code).toBe(0);
      given = json;
    });
    await whileServing(async () => {
      expect((await call("ADD")).json).toEqual(given);
      expect(await call("DEL")).toEqual({ code: 0, json: undefined });
      expect(await call("DEL")).toEqual({ code: 0, json: undefined });
      expect((await call("CHECK")).json).toMatchObject({ code: 106 });
    });
  });

  it("answers vhostuserctl on a socket beside the executable's", async () => {
    await whileServing(async () => {
      await call("ADD");
      const place = agentPlace({ cniSocket: join(directory, "cni.sock"), recordsDirectory: directory });
      expect(await askAgent(place, "/v1/addresses", nodeAddressesShape)).toMatchObject({
        ...{ node: "n1", version: "0.1.0", confirmed: true },
        pools: [{ name: "blue", node: { blocks: 1, used: 1 } }],
      });
    });
  });

  it("shows what it does in metrics", async () => {
    await whileServing(async (url) => {
      await call("ADD");
      const text = await (await fetch(`${url}/metrics`)).text();
      expect(text).toContain('vhostuser_ipam_requests_total{verb="ADD",code="ok"} 1');
      expect(text).toContain('vhostuser_ipam_node_addresses{pool="blue",state="used"} 1');
      expect(text).toContain('vhostuser_ipam_node_blocks{state="bound"}');
      expect(text).toContain("vhostuser_ipam_confirmed 1");
      expect(text).toContain("process_resident_memory_bytes");
      expect(await (await fetch(`${url}/livez`)).text()).toBe("ok\n");
    });
  });
});
