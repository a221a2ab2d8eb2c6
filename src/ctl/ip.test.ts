import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ServedAgent } from "../../test/stand-in/ipam/served-agent.ts";
import { runCtl } from "./run-ctl.ts";

let served: ServedAgent;
beforeEach(async () => {
  served = await ServedAgent.start({ claims: "referenced" });
});
afterEach(() => served[Symbol.asyncDispose]());

async function ip(...args: readonly string[]) {
  let [stdout, stderr] = ["", ""];
  const code = await runCtl({
    args: ["ip", ...args, ...(args.includes("--config") ? [] : ["--agent-socket", served.socketPath])],
    screen: {
      columns: 80,
      colour: false,
      write: (text) => {
        stdout += text;
      },
    },
    complain: (text) => {
      stderr += text;
    },
    node: "n1",
    version: "0.1.0",
    host: { proc: "/proc", sys: "/sys", kernel: "6.1.0", uid: 0, run: async () => "" },
  });
  if (!args.includes("wide") && !args.includes("--json"))
    expect(stdout.split("\n").filter((line) => line.length > 80)).toEqual([]);
  return { code, stdout, stderr };
}
async function jsonOf(...args: readonly string[]) {
  return JSON.parse((await ip(...args, "--json")).stdout);
}
/** Another agent's block, taken as that agent takes it. */
async function addressOfOtherNode(): Promise<string> {
  const other = await served.rig.agent({ node: "n2" });
  served.rig.pod("far", "n2");
  const { json } = await other.call({ verb: "ADD", pod: "far", container: "c-far" });
  return json.ips?.[0]?.address.split("/")[0] ?? "";
}
/** The node's status is read again. */
const later = (ms: number) => served.rig.api.clock.advance(ms);

describe("ip who", () => {
  it("names pod, interface, network and sandbox of an address of this node, and since when", async () => {
    const address = await served.add("web");
    await later(180_000);
    const { code, stdout } = await ip("who", address);
    expect(code).toBe(0);
    expect(stdout).toBe(`${address} in space default
  held on this node by tenant/web
  interface net1 of network net
  sandbox c-web
  since 3m
  block ${served.rig.blocks[0]?.metadata.name}
`);
    expect(await jsonOf("who", address)).toMatchObject({
      address,
      holders: [{ state: "held", interface: { createdAt: "2026-01-01T00:00:00.000Z" } }],
    });
  });

  it("says of an address that was released how long it rests, and then that it is free", async () => {
    const address = await served.add("web");
    await served.agent.call({ verb: "DEL", pod: "web", container: "c-web" });
    await later(20_000);
    expect((await ip("who", address)).stdout).toMatch(/free: .* it was\n {4}released, and rests for 40s\n/);
    await later(40_000);
    expect((await ip("who", address)).stdout).toMatch(/free: no pod has it, block \S+ is this node's\n/);
  });

  it("names the node of an address of another node's block, and what to run there", async () => {
    const address = await addressOfOtherNode();
    const { code, stdout } = await ip("who", address);
    expect(code).toBe(0);
    expect(stdout).toContain("of node n2\n");
    expect(stdout).toContain(`  run there: vhostuserctl ip who ${address} --space default\n`);
  });

  it("names the AddressAllocation of an address of a shared block, and its owner", async () => {
    const { rig } = served;
    rig.put("addressblocks", "default.10-0-9-0.28", {
      ...{ space: "default", cidr: "10.0.9.0/28", state: "Bound" },
      owner: { kind: "Shared" },
    });
    const owner = { kind: "Pod", namespace: "shop", name: "db", uid: "u", network: "n", interface: "net1" };
    rig.put("addressallocations", "default.10-0-9-1", {
      ...{ space: "default", pool: "single", address: "10.0.9.1", node: "n2" },
      owner: { ...owner, container: "c" },
    });
    const { stdout } = await ip("who", "10.0.9.1");
    expect(stdout).toContain("held by Pod shop/db, interface net1, node n2\n");
    expect(stdout).toContain("kubectl get addressallocation default.10-0-9-1 -o yaml");
    expect((await ip("who", "10.0.9.2")).stdout).toMatch(/free: .*shared by all nodes/);
  });

  it("names the claim of an address that a pod of this node uses, as ip of does", async () => {
    const { rig, agent } = served;
    const { store } = rig.api.server;
    const shared = { space: "default", cidr: "10.0.0.16/28", state: "Bound", owner: { kind: "Shared" } };
    rig.put("addressblocks", "default.10-0-0-16.28", shared);
    const inTenant = { namespace: "tenant" };
    store.create("tenant/ipamclaims", {
      metadata: { ...inTenant, name: "vm.net" },
      spec: { network: "net" },
    });
    const { uid } = store.get("tenant/ipamclaims", "vm.net").metadata;
    const owner = { kind: "IPAMClaim", ...inTenant, name: "vm.net", uid, network: "net" };
    const spec = { space: "default", pool: "blue", address: "10.0.0.17", owner };
    rig.put("addressallocations", "default.10-0-0-17", spec);
    store.merge("tenant/ipamclaims", "vm.net", { status: { ips: ["10.0.0.17/24"] } }, "status");
    const networks = JSON.stringify([{ name: "n", interface: "net1", "ipam-claim-reference": "vm.net" }]);
    const annotations = { "kubernetes.io/config.hash": "web", "k8s.v1.cni.cncf.io/networks": networks };
    store.create("tenant/pods", { metadata: { ...inTenant, name: "web", annotations }, spec: {} });
    const config = { allowPersistentIPs: true };
    expect((await agent.call({ verb: "ADD", pod: "web", config })).exitCode).toBe(0);
    const { stdout: who } = await ip("who", "10.0.0.17");
    expect(who).toMatch(/held on this node by tenant\/web\n.*kept by IPAMClaim tenant\/vm\.net\n/s);
    const { stdout: of } = await ip("of", "web", "-o", "wide");
    expect(of).toMatch(/ CLAIM\n.* default\.10-0-0-16\.28 +vm\.net\n/);
  });

  it("says which pool an address is of that no node has, and that no pool has another", async () => {
    await served.add("web");
    const taken = served.rig.blocks.map(({ spec }) => String((spec as { cidr: string }).cidr));
    const free = taken.includes("10.0.0.240/28") ? "10.0.0.17" : "10.0.0.254";
    expect((await ip("who", free)).stdout).toContain("no node has its block; it is of pool blue\n");
    expect((await ip("who", "192.0.2.1")).stdout).toContain("not held: no pool has it\n");
    expect((await ip("who", "fd00::1")).stdout).toContain("not held: no pool has it\n");
  });

  it("knows an address of this node without the API server, and ends with 1 for what only that knows", async () => {
    const [own, other] = [await served.add("web"), await addressOfOtherNode()];
    served.rig.api.server.tokens.clear();
    expect((await ip("who", own)).stdout).toContain("held on this node by tenant/web");
    const { code, stdout } = await ip("who", other);
    expect(code).toBe(1);
    expect(stdout).toContain("not on this node; who else has it is not known: ");
    expect(stdout).toContain("401");
  });

  it("shows every space in which an address is held or can be handed out, or the one that is named", async () => {
    const { rig, agent } = served;
    rig.put("addressspaces", "red", { blockPrefixes: { ipv4: 28, ipv6: 122 } });
    rig.put("addressspaces", "empty", { blockPrefixes: { ipv4: 28, ipv6: 122 } });
    rig.pool("red-pool", { space: "red", subnets: [{ cidr: "10.0.0.0/24" }] });
    await rig.api.until(() => agent.state.spaces.size === 3 && agent.state.pools.size === 2);
    const address = await served.add("web");
    const both = (await ip("who", address)).stdout;
    expect(both).toContain("in space default\n  held on this node");
    expect(both).toContain("in space red\n  not held: no node has its block; it is of pool red-pool");
    expect(both).not.toContain("space empty");
    expect((await ip("who", address, "--space", "red")).stdout).not.toContain("space default");
  });
});

describe("ip of", () => {
  it("lists the addresses of a pod by pool, interface and sandbox", async () => {
    const address = await served.add("web");
    await later(60_000);
    const { code, stdout } = await ip("of", "tenant/web");
    expect(code).toBe(0);
    expect(stdout.replaceAll(/ +/g, " ")).toBe(`tenant/web
 ADDRESS POOL INTERFACE NETWORK SANDBOX AGE
 ${address}/24 blue net1 net c-web 1m
`);
    const wide = await ip("of", "web", "-o", "wide");
    expect(wide.stdout).toMatch(/ GATEWAY +BLOCK +CLAIM\n.* 10\.0\.0\.1 +default\.10-0-0-\d+\.28 +-\n/);
    expect((await jsonOf("of", "web")).interfaces).toMatchObject([
      { pod: { namespace: "tenant", name: "web" } },
    ]);
  });

  it("accepts the name of a VM for that of its pod", async () => {
    await served.add("virt-launcher-db-x7k2p");
    expect((await ip("of", "db")).stdout).toContain("tenant/virt-launcher-db-x7k2p\n");
    expect((await ip("of", "virt-launcher-db")).code).toBe(2);
    expect((await ip("of", "db", "-n", "other")).code).toBe(2);
  });
});

describe("ip pools", () => {
  it("counts the addresses of this node's blocks, and shows the cluster's as the controller wrote them", async () => {
    await served.add("web");
    await served.add("db");
    await served.agent.call({ verb: "DEL", pod: "db", container: "c-db" });
    const before = await ip("pools");
    expect(before.code).toBe(0);
    expect(before.stdout).toMatch(/^POOL +SPACE +BLOCKS +USED +FREE +RESTING +USED IN CLUSTER$/m);
    expect(before.stdout).toMatch(/^blue +default +1 +1 +1\d +1 +-$/m);
    status({ conditions: [] });
    await later(10_000);
    expect((await ip("pools")).stdout).toMatch(/^blue .* 210 of 253 \(83%\)$/m);
    const condition = { reason: "r", message: "83 % are used", lastTransitionTime: "2026-01-01T00:00:00Z" };
    status({ conditions: [{ type: "NearlyFull", status: "True", ...condition }] });
    await later(10_000);
    const full = await ip("pools");
    expect([full.code, full.stdout]).toEqual([0, expect.stringContaining("- pool blue: 83 % are used\n")]);
    status({ conditions: [{ type: "Exhausted", status: "True", ...condition, message: "all are used" }] });
    await later(10_000);
    expect((await ip("pools")).code).toBe(1);
    expect((await jsonOf("pools")).problems).toMatchObject([
      { verdict: "problem", what: "pool blue: all are used" },
    ]);
  });

  it("shows the node's part without the API server, and says that this is missing", async () => {
    await served.add("web");
    served.rig.api.server.tokens.clear();
    const { code, stdout } = await ip("pools");
    expect(code).toBe(1);
    expect(stdout).toMatch(/^blue +default +1 +1 .* -$/m);
    expect(stdout).toContain("- the API server cannot be asked: ");
  });

  function status(changes: object): void {
    const { store } = served.rig.api.server;
    const counts = { total: 253, inBlocks: 224, used: 210, free: 43, blocks: 14 };
    const { metadata, ...rest } = store.get("addresspools", "blue");
    const { resourceVersion } = metadata;
    const object = { ...rest, metadata: { ...metadata, resourceVersion }, status: { ...counts, ...changes } };
    store.update("addresspools", "blue", object, "status");
  }
});

describe("ip leaks", () => {
  it("has nothing to show while pods run, and ends with 0", async () => {
    await served.add("web");
    expect(await ip("leaks")).toMatchObject({ code: 0, stdout: "no leaked addresses\n" });
  });

  it.each([
    ["the pod exists", () => {}, "its network namespace is gone, but its pod still exists"],
    [
      "both are gone",
      () => removePod(),
      "its network namespace is gone, and its pod is gone or has a newer sandbox: it is released once two checks",
    ],
    [
      "the API server is away",
      () => {
        removePod();
        served.rig.api.server.tokens.clear();
      },
      "its network namespace is gone, and the API server cannot be asked for its pod: kube-api-unavailable: the Kubernetes API server answered 401",
    ],
    [
      "only the pod is gone",
      () => {
        served.rig.netns.add("/run/netns/c-web");
        removePod();
      },
      "its pod is gone or has a newer sandbox, but its network namespace still exists",
    ],
  ])("says why an address without a running pod is held: %s", async (_, happens, why) => {
    const address = await served.add("web");
    served.rig.netns.delete("/run/netns/c-web");
    happens();
    const { code, stdout } = await ip("leaks");
    expect(code).toBe(1);
    expect(stdout).toContain(`tenant/web, net1: ${address}/24\n`);
    expect(stdout.replaceAll(/\s+/g, " ")).toContain(why);
    const [leak] = (await jsonOf("leaks")).leaks;
    expect(leak).toMatchObject({ container: "c-web", netns: "/run/netns/c-web" });
  });

  it("says so where the pod has a newer sandbox, whose address is not leaked", async () => {
    const [old] = [await served.add("web"), await later(1_000)];
    const current = await served.add("web", { container: "c-newer" });
    served.rig.netns.delete("/run/netns/c-web");
    const { stdout } = await ip("leaks");
    expect(stdout).toContain(`tenant/web, net1: ${old}/24\n`);
    expect(stdout).toContain("its pod is gone or has a newer sandbox");
    expect(stdout).not.toContain(current);
  });

  it("says since when, until the address is collected and rests", async () => {
    await served.add("web");
    served.rig.netns.delete("/run/netns/c-web");
    removePod();
    const { rig, agent } = served;
    await rig.api.until(() => agent.leaks.suspects > 0, 1_000);
    await later(10_000);
    expect((await ip("leaks")).stdout).toContain("  seen for 10s\n");
    await rig.api.until(() => agent.leaks.collected > 0, 1_000);
    await later(10_000);
    const { code, stdout } = await ip("leaks");
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/^no leaked addresses\n1 address rests after its release for (49|50)s\n$/),
    ]);
  });

  function removePod(): void {
    served.rig.api.server.store.remove("pods", "web", {});
  }
});

describe("an ip command that cannot be answered", () => {
  it.each([
    [["who"], "missing required argument 'address'"],
    [["who", "10.0.0.5/24"], "is not an address"],
    [["who", "10.0.0.5", "--space", "green"], "there is no AddressSpace green"],
    [["of", "a/b/c"], "write POD or NAMESPACE/POD"],
    [["of", "tenant/nothing"], "has no address of kube-vhostuser-ipam on this node"],
    [["frobnicate"], "unknown command 'frobnicate'"],
  ])("%j ends with 2 and says what is wrong in its first line", async (args, text) => {
    const { code, stdout, stderr } = await ip(...args);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr.split("\n")[0]).toContain(text);
  });

  it("says whether the agent is not enabled on this node, or does not run", async () => {
    const { directory } = served.rig;
    const config = join(directory, "config.yaml");
    await writeFile(
      config,
      JSON.stringify({ cniSocket: join(directory, "cni.sock"), recordsDirectory: directory }),
    );
    expect((await ip("pools", "--config", config)).code).toBe(0);
    await served.stopServing();
    const stopped = await ip("pools", "--config", config);
    expect([stopped.code, stopped.stderr]).toEqual([2, expect.stringContaining(STOPPED)]);
    await rm(served.socketPath, { force: true });
    expect((await ip("pools", "--config", config)).stderr).toContain(
      "ipam-agent-unavailable: the IPAM agent is not enabled on this node",
    );
    // It has run here before.
    await mkdir(join(directory, "ipam"));
    expect((await ip("pools", "--config", config)).stderr).toContain(STOPPED);
  });
  const STOPPED = "the IPAM agent does not run on this node";
});
