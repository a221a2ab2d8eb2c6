import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ApiRig } from "../../../test/stand-in/api-server/api-rig.ts";
import { ClaimCluster } from "../../../test/stand-in/ipam/claim-cluster.ts";
import type { IpamCluster } from "../../../test/stand-in/ipam/cluster.ts";
import { ControllerRig } from "../../../test/stand-in/ipam/controller-rig.ts";
import { IpamController } from "../controller.ts";
import type { ControllerApi } from "../controller-context.ts";

let all: ControllerRig;
let rig: ApiRig;
let cluster: IpamCluster;
let claims: ClaimCluster;
let controller: IpamController;

beforeEach(async () => {
  all = await ControllerRig.open();
  ({ rig, cluster } = all);
  claims = new ClaimCluster(rig.server);
  rig.server.namespaces.add("other");
  cluster.pool("blue", ["10.0.0.0/24"], { cooldownSeconds: 300 });
  cluster.blockOf("10.0.0.0/28", { kind: "Shared" });
});
afterEach(() => all.close());

/** Addresses in order: the first free one of the first block. */
const random = () => 0;
const start = (api: ControllerApi = rig.client) => all.start(api, { hasClaims: true, random });
/** Starts a controller in place of the one that runs. @param onRequest is called before each request, which fails where it throws */
async function restart(onRequest: (request: string) => void): Promise<void> {
  all.end();
  await rig.until(() => rig.server.watches.length === 0);
  const api = new Proxy(rig.client, {
    get: (client, key) => {
      const method: unknown = Reflect.get(client, key);
      if (typeof method !== "function") return method;
      return async (...args: readonly [{ readonly plural?: string }, ...unknown[]]) => {
        onRequest(`${String(key)} ${args[0].plural}`);
        return Reflect.apply(method, client, args);
      };
    },
  });
  controller = await start(api);
}
const looks = (...seconds: readonly number[]) => all.looks(controller, ...seconds);
const published = async (name: string, namespace?: string) => {
  await rig.until(() => claims.status(name, namespace).ips.length > 0, 10);
  return claims.status(name, namespace).ips;
};
const reason = async (name: string, wanted: string) => {
  await rig.until(() => claims.status(name).reason === wanted, 10);
  return claims.status(name);
};

describe("a claim of a network of ours", () => {
  const plugin = { type: "macvlan", ipam: { type: "kube-vhostuser-ipam", pools: ["blue"] } };
  beforeEach(async () => {
    claims.network("nad-blue", ["blue"]);
    controller = await start();
  });

  it("gets an address of the pool with the subnet's length, and keeps it (requirements 1, 11, 40)", async () => {
    const writes = rig.server.answers.length;
    claims.claim("vm1.red", "nad-blue-network");
    expect(await published("vm1.red")).toEqual(["10.0.0.1/24"]);
    expect(claims.status("vm1.red").reason).toBe("SuccessfulAllocation");
    expect(claims.owners).toEqual({ "10.0.0.1": "tenant/vm1.red" });
    const ours = rig.server.answers.slice(writes).filter((answer) => /^(POST|PUT|DELETE)/.test(answer));
    expect(ours).toEqual(["POST 201", "PUT 200"]);
    await looks(300, 300);
    expect(claims.status("vm1.red").ips).toEqual(["10.0.0.1/24"]);
  });

  it("is of any namespace and of any owner, also where the network is in another one (18, 30, 35)", async () => {
    claims.claim("vm1.red", "nad-blue-network");
    claims.claim("vm1.red", "nad-blue-network", { namespace: "other" });
    const both = [...(await published("vm1.red")), ...(await published("vm1.red", "other"))];
    expect(both.sort()).toEqual(["10.0.0.1/24", "10.0.0.2/24"]);
  });

  it("costs no read of its network, which a watch shows once for all claims (36)", async () => {
    const asked: string[] = [];
    await restart((request) => void asked.push(request));
    for (const name of ["a", "b", "c"]) claims.claim(name, "nad-blue-network");
    for (const name of ["a", "b", "c"]) await published(name);
    expect(asked).toContain("get ipamclaims");
    expect(asked.filter((one) => one.includes("network-attachment-definitions")).sort()).toEqual([
      "list network-attachment-definitions",
      "openWatch network-attachment-definitions",
    ]);
  });

  it("gets an address of each pool, IPv4 and IPv6 (6, 45)", async () => {
    cluster.pool("blue6", ["fd00::/64"]);
    cluster.blockOf("fd00::/122", { kind: "Shared" });
    claims.network("dual", ["blue", "blue6"]);
    claims.claim("vm1.dual", "dual-network");
    expect(await published("vm1.dual")).toEqual(["10.0.0.1/24", "fd00::1/64"]);
  });

  it("of another IPAM, or without a network, is left alone", async () => {
    claims.attachment("ovn", { name: "ovn", type: "ovn-k8s-cni-overlay", allowPersistentIPs: true });
    claims.claim("a", "ovn");
    claims.claim("b", "nothing");
    claims.claim("c", "nad-blue-network");
    await published("c");
    expect([claims.status("a"), claims.status("b")]).toEqual(Array(2).fill({ ips: [], reason: undefined }));
  });

  it("that is being deleted gets no address (19)", async () => {
    claims.claim("a", "nad-blue-network", { finalizers: ["x/y"], deletionTimestamp: "2026-01-01T00:00:00Z" });
    claims.claim("b", "nad-blue-network");
    await published("b");
    expect(claims.owners).toEqual({ "10.0.0.1": "tenant/b" });
  });

  it("has a condition while all addresses are taken, and completes when one is free (44)", async () => {
    for (let index = 0; index < 15; index++) claims.claim(`full-${index}`, "nad-blue-network");
    for (let index = 0; index < 15; index++) await published(`full-${index}`);
    claims.claim("late", "nad-blue-network");
    expect(await reason("late", "SubnetExhausted")).toEqual({ ips: [], reason: "SubnetExhausted" });
    await rig.until(() => all.posted.length > 0);
    expect(all.posted).toMatchObject([
      { reason: "IPAMClaimRefused", regarding: { kind: "IPAMClaim", name: "late" } },
    ]);
    cluster.blockOf("10.0.0.16/28", { kind: "Shared" });
    expect(await published("late")).toEqual(["10.0.0.16/24"]);
    expect(claims.status("late").reason).toBe("SuccessfulAllocation");
    expect(all.posted).toHaveLength(1);
  });

  it("of a burst has its shared block made at once, before others have used up what is free", async () => {
    all.end();
    cluster.pool("burst", ["10.4.0.0/16"]);
    claims.network("nad-burst", ["burst"]);
    const { client: api, clock, logger } = rig;
    const burst = new IpamController({ api, clock, logger, random, hasClaims: true });
    burst.run(all.signal).catch(() => undefined);
    const blocks = () => cluster.blocks.filter((name) => name.startsWith("default.10-4-")).length;
    // 256 addresses are free ahead: the first block lacks the network's.
    await rig.until(() => blocks() === 17, 10);
    const nowMs = clock.now();
    const names = Array.from({ length: 32 }, (_, index) => `burst-${index}`);
    for (const name of names) claims.claim(name, "nad-burst-network");
    await rig.until(() => blocks() === 19, 1);
    expect(clock.now() - nowMs, "sooner than at the next regular look").toBeLessThan(2_000);
    await rig.until(() => names.every((name) => claims.status(name).ips.length === 1), 10);
  });

  it("gets its address when the pool comes later (44)", async () => {
    claims.network("later", ["green"]);
    claims.claim("a", "later-network");
    await reason("a", "PoolMissing");
    cluster.pool("green", ["10.9.0.0/28"]);
    cluster.blockOf("10.9.0.0/28", { kind: "Shared" });
    expect(await published("a")).toEqual(["10.9.0.1/28"]);
  });

  it("is refused where two networks of the name differ, and gets its address when they agree (16)", async () => {
    claims.network("twin", ["other"], { name: "nad-blue-network" }, "other");
    claims.claim("a", "nad-blue-network");
    await reason("a", "NetworkConflict");
    await rig.until(() => all.posted.length > 0);
    expect(all.posted[0]?.note).toContain("tenant/nad-blue, other/twin");
    cluster.remove("other/network-attachment-definitions", "twin");
    expect(await published("a")).toEqual(["10.0.0.1/24"]);
  });

  it("is refused where the network does not allow claims (4, 14)", async () => {
    claims.network("plain", ["blue"], { allowPersistentIPs: false });
    claims.claim("a", "plain-network");
    claims.attachment("list", { name: "list", allowPersistentIPs: true, plugins: [plugin] });
    claims.claim("b", "list");
    for (const name of ["a", "b"]) await reason(name, "PersistentIPsNotAllowed");
    await rig.until(() => all.posted.length === 2);
    expect(all.posted.map(({ note }) => note).join()).toContain("also into the plugin");
    expect(claims.owners).toEqual({});
  });

  it("of a list of plugins gets its address where the plugin has the key", async () => {
    claims.attachment("list", {
      name: "list",
      plugins: [{ ...plugin, allowPersistentIPs: true }, { type: "tuning" }],
    });
    claims.claim("a", "list");
    expect(await published("a")).toEqual(["10.0.0.1/24"]);
  });

  it("never gets an address that the pool excludes (39)", async () => {
    cluster.pool("tight", ["10.8.0.0/28"]);
    rig.server.store.merge("addresspools", "tight", {
      spec: { subnets: [{ cidr: "10.8.0.0/28", exclude: ["10.8.0.1-10.8.0.13"] }] },
      metadata: { generation: 2 },
    });
    cluster.blockOf("10.8.0.0/28", { kind: "Shared" });
    claims.network("tight", ["tight"]);
    claims.claim("a", "tight-network");
    claims.claim("b", "tight-network");
    await rig.until(() => ["a", "b"].some((one) => claims.status(one).reason === "SubnetExhausted"), 10);
    expect(Object.keys(claims.owners)).toEqual(["10.8.0.14"]);
  });
});

describe("addresses that a claim has published already", () => {
  it("are allocated to it at the start, exactly these (10, 13)", async () => {
    claims.network("nad-blue", ["blue"]);
    claims.claim("a", "nad-blue-network");
    claims.publish("a", ["10.0.0.200/24"]);
    controller = await start();
    await rig.until(() => claims.owners["10.0.0.200"] === "tenant/a", 10);
    expect(claims.status("a").ips).toEqual(["10.0.0.200/24"]);
    expect(cluster.blocks).toContain("default.10-0-0-192.28 Bound");
  });

  it("stay, and are said to conflict, where another has them or no pool has them", async () => {
    claims.network("nad-blue", ["blue"]);
    claims.claim("first", "nad-blue-network");
    controller = await start();
    const [taken = ""] = await published("first");
    claims.claim("restored", "nad-blue-network");
    claims.publish("restored", [taken]);
    cluster.node("n1");
    cluster.block("10.0.0.32/28", "n1");
    claims.claim("of-node", "nad-blue-network");
    claims.publish("of-node", ["10.0.0.40/24"]);
    claims.claim("strange", "nad-blue-network");
    claims.publish("strange", ["192.168.0.1/24"]);
    for (const name of ["restored", "of-node", "strange"]) {
      const { ips } = await reason(name, "IPAddressConflict");
      expect(ips).toHaveLength(1);
    }
    expect(claims.owners).toEqual({ "10.0.0.1": "tenant/first" });
  });

  it("go to the claim that was restored under the name, with another uid", async () => {
    claims.network("nad-blue", ["blue"]);
    claims.claim("a", "nad-blue-network");
    controller = await start();
    const ips = await published("a");
    cluster.remove("tenant/ipamclaims", "a");
    const { uid } = claims.claim("a", "nad-blue-network").metadata;
    claims.publish("a", ips);
    const ownerUid = () => JSON.stringify(rig.server.store.all("addressallocations"));
    await rig.until(() => ownerUid().includes(uid), 10);
    await looks(300, 300);
    expect(claims.owners).toEqual({ "10.0.0.1": "tenant/a" });
  });
});

describe("an address of a pool with sticky: Key", () => {
  const keyOf = () =>
    rig.server.store.all("addressallocations").map(({ spec }) => (spec as { key?: string }).key);
  beforeEach(async () => {
    cluster.pool("kept", ["10.7.0.0/24"], { mode: "PerAddress", sticky: "Key" });
    cluster.blockOf("10.7.0.0/28", { kind: "Shared" });
    claims.network("nad-kept", ["kept"]);
    controller = await start();
    claims.claim("vm1.red", "nad-kept-network");
    expect(await published("vm1.red")).toEqual(["10.7.0.1/24"]);
  });
  const gone = () => cluster.remove("tenant/ipamclaims", "vm1.red");

  it("outlives the VM, and is that of the VM of the same name, as after a restore from a backup (69, 70)", async () => {
    gone();
    await looks(60, 60);
    expect(keyOf()).toEqual(["tenant/ipamclaim/vm1.red"]);
    expect(claims.owners).toEqual({});
    rig.server.namespaces.add("other");
    claims.claim("vm2.red", "nad-kept-network");
    claims.claim("vm1.red", "nad-kept-network", { namespace: "other" });
    const others = [...(await published("vm2.red")), ...(await published("vm1.red", "other"))];
    expect(others.sort()).toEqual(["10.7.0.2/24", "10.7.0.3/24"]);
    claims.claim("vm1.red", "nad-kept-network");
    expect(await published("vm1.red")).toEqual(["10.7.0.1/24"]);
  });

  it("is that of the later VM also before the former claim's address was freed, and the controller keeps it", async () => {
    gone();
    claims.claim("vm1.red", "nad-kept-network");
    expect(await published("vm1.red")).toEqual(["10.7.0.1/24"]);
    await looks(60, 60);
    expect(claims.owners).toEqual({ "10.7.0.1": "tenant/vm1.red" });
  });

  it("is not kept where it was allocated for a claim that has published another one", async () => {
    const { uid } = rig.server.store.get("tenant/ipamclaims", "vm1.red").metadata;
    const { spec } = rig.server.store.get("addressallocations", "default.10-7-0-1");
    const owner = { ...(spec as { owner: object }).owner, uid };
    const second = { ...(spec as object), address: "10.7.0.9", owner };
    rig.server.store.create("addressallocations", { metadata: { name: "default.10-7-0-9" }, spec: second });
    await looks(60);
    expect(cluster.allocations).toEqual(["default.10-7-0-1"]);
  });

  it("is the claim's also where its status was restored with it", async () => {
    gone();
    await looks(60, 60);
    claims.claim("vm1.red", "nad-kept-network");
    claims.publish("vm1.red", ["10.7.0.1/24"]);
    await rig.until(() => claims.owners["10.7.0.1"] === "tenant/vm1.red", 10);
    expect(keyOf()).toEqual(["tenant/ipamclaim/vm1.red"]);
  });
});

describe("an address of a claim that is gone", () => {
  beforeEach(async () => {
    claims.network("nad-blue", ["blue"]);
    controller = await start();
    claims.claim("vm1.red", "nad-blue-network");
    await published("vm1.red");
  });
  const gone = () => cluster.remove("tenant/ipamclaims", "vm1.red");
  const taken = () => Object.keys(claims.owners);

  it("is freed when two looks found that, as far apart as the cooldown (5, 23)", async () => {
    gone();
    await looks(299);
    expect(taken()).toEqual(["10.0.0.1"]);
    await looks(1);
    expect(taken()).toEqual([]);
    expect(controller.counts).toMatchObject({ allocationsFreed: 1, passesFailed: 0 });
  });

  it("is freed with neither network nor pod nor namespace (29)", async () => {
    gone();
    cluster.remove("tenant/network-attachment-definitions", "nad-blue");
    rig.server.namespaces.delete("tenant");
    await looks(300);
    expect(taken()).toEqual([]);
  });

  it("is freed by the next controller where it was gone while there was none", async () => {
    all.end();
    await rig.until(() => rig.server.watches.length === 0);
    gone();
    controller = await start();
    await looks(300);
    expect(taken()).toEqual([]);
  });

  it("stays while the claim waits for its finalizer (22)", async () => {
    rig.server.store.merge("tenant/ipamclaims", "vm1.red", {
      metadata: { finalizers: ["kubevirt.io/persistent-ipam"] },
    });
    gone();
    await looks(300, 300);
    expect(taken()).toEqual(["10.0.0.1"]);
    rig.server.store.merge("tenant/ipamclaims", "vm1.red", { metadata: { finalizers: null } });
    await looks(0, 300);
    expect(taken()).toEqual([]);
  });

  it.each([
    [
      "Multus says that it has the address",
      { name: "nad-blue", interface: "net1", claim: "vm1.red", ips: ["10.0.0.1"] },
    ],
    ["it names the claim and has no address yet", { name: "nad-blue", interface: "net1", claim: "vm1.red" }],
    ["it is a launcher of the VM without an address yet", { name: "nad-blue", interface: "net1" }],
  ])("is not given to another while a pod uses it: %s (25)", async (_, network) => {
    claims.launcher("vm1", [network]);
    gone();
    await looks(300, 300);
    claims.claim("other", "nad-blue-network");
    expect(await published("other")).toEqual(["10.0.0.2/24"]);
    cluster.remove("tenant/pods", "virt-launcher-vm1-aaaaa");
    await looks(0, 299);
    expect(taken()).toEqual(["10.0.0.1", "10.0.0.2"]);
    await looks(1);
    expect(taken()).toEqual(["10.0.0.2"]);
  });

  it("is freed while pods of a later claim of the same name run, which have other addresses (17)", async () => {
    gone();
    claims.claim("vm1.red", "nad-blue-network");
    const [text = ""] = await published("vm1.red");
    claims.launcher("vm1", [
      { name: "nad-blue", interface: "net1", claim: "vm1.red", ips: [text.split("/")[0] ?? ""] },
    ]);
    await looks(300);
    expect(taken()).toEqual(["10.0.0.2"]);
  });

  it.each([
    ["the claim cannot be read", "get ipamclaims"],
    ["pods cannot be listed", "list pods"],
    ["the allocation cannot be read", "get addressallocations"],
  ])("stays where %s: an error is not an answer", async (_, failing) => {
    let isFailing = false;
    await restart((request) => {
      if (isFailing && request === failing) throw new Error("not now");
    });
    gone();
    await looks(200);
    await rig.clock.advance(100_000);
    await all.seen(controller);
    isFailing = true;
    await controller.pass(all.signal);
    isFailing = false;
    expect(taken()).toEqual(["10.0.0.1"]);
    expect(controller.counts).toMatchObject({ passesFailed: 1 });
    await looks(300);
    expect(taken()).toEqual([]);
  });

  it("is freed where it was never published, because another one was", async () => {
    // A controller allocated, was overtaken by an agent, and died.
    cluster.remove("tenant/ipamclaims", "vm1.red");
    const { uid } = claims.claim("b", "nad-blue-network").metadata;
    expect(await published("b")).toEqual(["10.0.0.2/24"]);
    const left = rig.server.store.get("addressallocations", "default.10-0-0-1");
    const owner = { kind: "IPAMClaim", namespace: "tenant", name: "b", uid, network: "nad-blue-network" };
    rig.server.store.merge("addressallocations", "default.10-0-0-1", {
      spec: { ...(left["spec"] as object), owner },
    });
    await rig.until(() => controller.view.allocations.entries.get("default.10-0-0-1")?.claim?.uid === uid);
    await looks(300);
    expect(claims.owners).toEqual({ "10.0.0.2": "tenant/b" });
  });
});
