import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ApiRig } from "../../../test/stand-in/api-server/api-rig.ts";
import type { Json } from "../../../test/stand-in/api-server/object-store.ts";
import type { IpamCluster } from "../../../test/stand-in/ipam/cluster.ts";
import { ControllerRig } from "../../../test/stand-in/ipam/controller-rig.ts";
import { ended, StandInWhereabouts } from "../../../test/stand-in/ipam/whereabouts.ts";
import type { PoolStatus } from "../../address-objects/address-pool.ts";
import type { IpamController } from "../controller.ts";
import { observeController } from "../observe-controller.ts";

let all: ControllerRig;
let rig: ApiRig;
let cluster: IpamCluster;
let controller: IpamController;
let old: StandInWhereabouts;

beforeEach(async () => {
  all = await ControllerRig.open();
  ({ rig, cluster } = all);
  rig.server.namespaces.add("kube-system");
  old = new StandInWhereabouts(rig.server.store, "10.0.0.0/26");
  cluster.node("n1");
});
afterEach(() => all.close());

const store = () => rig.server.store;
const add = (name: string, container = `c-${name}`) => {
  const pod = `tenant/${name}`;
  return { pod, container, address: ended(old.add({ pod, container })) };
};
/** A pool of the range, with the key. */
const pool = (more: Json = {}, cidr = "10.0.0.0/26") =>
  cluster.pool("blue", [cidr], { whereabouts: {}, ...more });
const status = () => store().get("addresspools", "blue")["status"] as unknown as PoolStatus | undefined;
const condition = (wanted: string) => status()?.conditions.find(({ type }) => type === wanted);
const imported = () => status()?.whereabouts?.imported;
const foreign = () =>
  store()
    .all("addressblocks")
    .flatMap(({ metadata: { name }, spec, status: own }) => {
      const { owner } = spec as { readonly owner: { readonly kind: string } };
      return owner.kind === "Foreign" ? [`${name} ${(own as Json | undefined)?.["used"] ?? 0}`] : [];
    });

async function start() {
  controller = await all.start(rig.client, { whereabouts: "kube-system" });
}
async function look(seconds = 0) {
  await rig.clock.advance(seconds * 1000);
  await all.look(controller);
  await all.count(controller);
}
/** Two looks, and the status that says what they found. */
async function imports() {
  await start();
  await look();
  await look(60);
}

/** Labels and value of the metric by which an alert sees it. */
async function handedOutTwice() {
  const events = { posted: 0, merged: 0, dropped: 0, failed: 0 };
  const server = await observeController(() => ({ leading: controller, events, apiProblem: undefined }), {
    listen: { address: "127.0.0.1", port: 0 },
    logger: rig.logger,
  });
  const text = await (await fetch(`${server.url}/metrics`)).text();
  await server.close();
  return /^vhostuser_ipam_pool_handed_out_twice(.*)$/m.exec(text)?.[1];
}

describe("addresses of whereabouts", () => {
  it("that pods have stay theirs in blocks of kind Foreign, and all others are kept from it", async () => {
    for (const name of ["a", "b", "c"]) add(name);
    pool();
    await start();
    await look();
    expect(foreign()).toEqual(["default.10-0-0-0.28 3"]);
    expect(old.entries).toMatchObject({ 1: "tenant/a", 3: "tenant/c", 4: "", 62: "" });
    expect(Object.keys(old.entries)).toHaveLength(62);
    expect(add("d").address).toBeUndefined();
    // One look is not enough.
    expect(imported()).toEqual([]);
    expect(condition("Ready")).toMatchObject({ status: "False", reason: "NotImported" });
    expect(condition("Imported")).toMatchObject({ status: "False", reason: "Importing" });
    await look(59);
    expect(imported()).toEqual([]);
    await look(31);
    expect(status()?.whereabouts).toEqual({ imported: ["10.0.0.1-10.0.0.62"], left: 3 });
    await look(30);
    expect(condition("Ready")).toMatchObject({ status: "True" });
    expect(condition("Imported")).toMatchObject({
      ...{ status: "True", message: "Pods still have 3 addresses of whereabouts" },
    });
    expect(status()).toMatchObject({ total: 62, used: 3 });
  });

  it("of a part of a range are imported alone: whereabouts hands out the rest", async () => {
    add("a");
    cluster.pool("blue", [], {
      ...{ subnets: [{ cidr: "10.0.0.0/26", ranges: ["10.0.0.32/27"] }], whereabouts: {} },
    });
    await imports();
    expect(imported()).toEqual(["10.0.0.32-10.0.0.62"]);
    expect(foreign()).toEqual([]);
    expect(add("b").address).toBe("10.0.0.2");
    const { spec } = store().get("addresspools", "blue");
    store().merge("addresspools", "blue", {
      spec: { ...(spec as Json), subnets: [{ cidr: "10.0.0.0/26" }] },
    });
    store().merge("addresspools", "blue", { metadata: { generation: 2 } });
    await look(30);
    await look(60);
    await look(60);
    expect(imported()).toEqual(["10.0.0.1-10.0.0.62"]);
    expect(foreign()).toEqual(["default.10-0-0-0.28 2"]);
  });

  it("are free for nodes when their pods are gone at two looks, and the cooldown is over", async () => {
    const one = add("a");
    pool({ cooldownSeconds: 300 });
    await imports();
    ended(old.del(one));
    await look(30);
    // What its pod gave back is kept from whereabouts.
    expect(old.entries).toMatchObject({ 1: "" });
    expect(foreign()).toEqual(["default.10-0-0-0.28 0"]);
    await look(299);
    expect(foreign()).toHaveLength(1);
    await look(60);
    expect(foreign()).toEqual([]);
    expect(status()?.whereabouts?.left).toBe(0);
  });

  it("stay a pod's whose entry whereabouts has removed too early", async () => {
    const { address } = add("a");
    cluster.pod("a", { node: "n1" });
    const networks = JSON.stringify([{ name: "tenant/old", interface: "net1", ips: [address] }]);
    const annotations = { "k8s.v1.cni.cncf.io/network-status": networks };
    store().merge("tenant/pods", "a", { metadata: { annotations } });
    pool();
    await imports();
    old.reconcile(new Map());
    for (const seconds of [30, 60, 60, 60]) await look(seconds);
    expect(foreign()).toEqual(["default.10-0-0-0.28 0"]);
    cluster.remove("tenant/pods", "a");
    for (const seconds of [30, 60, 60]) await look(seconds);
    expect(foreign()).toEqual([]);
  });

  it("that have only a reservation are a pod's", async () => {
    const call = old.add({ pod: "tenant/a", container: "c" });
    // The IPPool is made, read, and the write fails.
    for (let request = 0; request < 4; request++) call.next("answered");
    call.next("server error");
    expect(old.entries).toEqual({});
    pool();
    await start();
    await look();
    expect(foreign()).toEqual([]);
    expect(call.next("answered").value).toBe("10.0.0.1");
    await look(60);
    expect(foreign()).toEqual(["default.10-0-0-0.28 1"]);
    expect(status()?.whereabouts?.left).toBe(1);
  });

  it("in a block of a node are not imported, until their pods are gone", async () => {
    const one = add("a");
    cluster.block("10.0.0.0/28", "n1");
    pool();
    await imports();
    expect(imported()).toEqual(["10.0.0.2-10.0.0.62"]);
    expect(condition("Imported")).toMatchObject({
      reason: "BlockOfNode",
      message: expect.stringContaining(" 10.0.0.1."),
    });
    ended(old.del(one));
    for (const seconds of [30, 60, 60]) await look(seconds);
    expect(imported()).toEqual(["10.0.0.1-10.0.0.62"]);
    expect(condition("Imported")).toMatchObject({ reason: "AllImported" });
  });

  it("of a range that no pod has used yet are kept from it, too", async () => {
    store().create("tenant/network-attachment-definitions", old.network);
    pool();
    await imports();
    expect(Object.keys(old.entries)).toHaveLength(62);
    expect(imported()).toEqual(["10.0.0.1-10.0.0.62"]);
  });

  it("that it hands out of another range after the import are shown, in a metric too", async () => {
    pool();
    await imports();
    expect(await handedOutTwice()).toBe('{pool="blue"} 0');
    cluster.block("10.0.0.0/28", "n1");
    const wider = new StandInWhereabouts(store(), "10.0.0.0/25");
    expect(ended(wider.add({ pod: "tenant/late", container: "c" }))).toBe("10.0.0.1");
    await look(30);
    expect(condition("Imported")).toMatchObject({ status: "False", reason: "HandedOutTwice" });
    expect(await handedOutTwice()).toBe('{pool="blue"} 1');
    expect(condition("Ready")?.status).toBe("True");
    expect(wider.entries).toMatchObject({ 1: "tenant/late", 2: "" });
  });

  it("of a network that the pool does not name are another network's", async () => {
    add("a");
    pool({ whereabouts: { networkName: "red" } });
    await imports();
    expect(Object.keys(old.entries)).toEqual(["1"]);
    expect(foreign()).toEqual([]);
    expect(imported()).toEqual(["10.0.0.1-10.0.0.62"]);
  });

  it.each([
    ["TooManyAddresses", "10.0.0.0/16", () => undefined],
    [
      "NodeSlices",
      "10.0.0.0/26",
      () => {
        const metadata = { name: "old", namespace: "kube-system" };
        store().create("kube-system/nodeslicepools", { metadata, spec: { range: "10.0.0.0/20" } });
      },
    ],
  ])("are not imported, and the condition says why: %s", async (reason, range, prepare) => {
    old = new StandInWhereabouts(store(), range);
    add("a");
    prepare();
    pool({}, range);
    await imports();
    expect(imported()).toEqual([]);
    expect(condition("Imported")).toMatchObject({ status: "False", reason });
    expect(Object.keys(old.entries)).toEqual(["1"]);
  });

  it("stay theirs when the pool is deleted, which does not wait for them, and are not kept from it any more", async () => {
    add("a");
    pool();
    await imports();
    cluster.remove("addresspools", "blue");
    await look();
    expect(store().find("addresspools", "blue")).toBeUndefined();
    ended(old.del({ pod: "tenant/a", container: "c-a" }));
    await look(120);
    expect(foreign()).toHaveLength(1);
    expect(old.entries).not.toHaveProperty("1");
  });

  it("are not imported where whereabouts cannot be read, nor by a controller that is not told to", async () => {
    add("a");
    pool();
    await start();
    rig.server.verbs.delete("list");
    await look();
    expect(condition("Imported")).toMatchObject({
      reason: "CheckFailed",
      message: expect.stringContaining("forbidden"),
    });
    rig.server.verbs.add("list");
    controller = await all.start();
    await rig.clock.advance(30_000);
    await look();
    expect(condition("Imported")).toMatchObject({ reason: "NotEnabled" });
    expect(imported()).toEqual([]);
  });
});
