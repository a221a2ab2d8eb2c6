// What went wrong in other projects' garbage collection and counting, each as a test of ours.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ApiRig } from "../../test/stand-in/api-server/api-rig.ts";
import { at } from "../../test/stand-in/api-server/object-store.ts";
import type { IpamCluster } from "../../test/stand-in/ipam/cluster.ts";
import { ControllerRig } from "../../test/stand-in/ipam/controller-rig.ts";
import { ApiFailure } from "../kube-api/api-failure.ts";
import type { ControllerApi } from "./controller-context.ts";

let all: ControllerRig;
let rig: ApiRig;
let cluster: IpamCluster;

beforeEach(async () => {
  all = await ControllerRig.open();
  ({ rig, cluster } = all);
});
afterEach(() => all.close());

/** The client, with something that another program does just before a request is sent. */
function disturbed(before: (what: string) => void): ControllerApi {
  const { client } = rig;
  return {
    get: async (resource, name, signal) => {
      before(`get ${resource.plural}`);
      return client.get(resource, name, signal);
    },
    list: async (resource, selection, signal, keep) => {
      if (selection.fieldSelector !== undefined) before(`list ${resource.plural}`);
      return client.list(resource, selection, signal, keep);
    },
    openWatch: (...call) => client.openWatch(...call),
    create: (...call) => client.create(...call),
    update: async (resource, body, signal) => {
      before(`update ${resource.plural}`);
      return client.update(resource, body, signal);
    },
    delete: async (resource, name, preconditions, signal) => {
      before(`delete ${resource.plural}`);
      return client.delete(resource, name, preconditions, signal);
    },
  };
}

describe("duplicates: a reconciler that lists pods before it reads reservations (whereabouts #162, #176, #207)", () => {
  it.each(["get addressblocks", "get nodes", "list pods", "update addressblocks"])(
    "a block that its agent writes to before %s of the last look is not quarantined",
    async (moment) => {
      cluster.node("n1");
      const block = cluster.block("10.0.0.0/28", "n1");
      let isArmed = false;
      const controller = await all.start(
        disturbed((what) => {
          if (!isArmed || what !== moment) return;
          isArmed = false;
          rig.server.store.merge("addressblocks", block, { status: { used: 1 } }, "status");
        }),
      );
      cluster.remove("nodes", "n1");
      await all.look(controller);
      await rig.clock.advance(60_000);
      isArmed = true;
      await all.look(controller);
      expect(isArmed).toBe(false);
      expect(cluster.blocks).toEqual([`${block} Bound`]);
    },
  );

  it.each(["get pods", "get nodes", "delete addressallocations"])(
    "an address that another pod gets before %s of the last look is not freed",
    async (moment) => {
      cluster.pool("blue", ["10.0.0.0/24"], { mode: "PerAddress" });
      cluster.blockOf("10.0.0.0/28", { kind: "Shared" });
      const pod = cluster.pod("vm", { node: "n1" });
      const name = cluster.allocation("10.0.0.5", pod, { node: "n1" });
      let isArmed = false;
      const controller = await all.start(
        disturbed((what) => {
          if (!isArmed || what !== moment) return;
          isArmed = false;
          cluster.remove("addressallocations", name);
          cluster.allocation("10.0.0.5", cluster.pod("vm", { node: "n2" }), { node: "n2" });
        }),
      );
      cluster.remove("tenant/pods", "vm");
      await all.look(controller);
      await rig.clock.advance(60_000);
      isArmed = true;
      await all.look(controller);
      expect(isArmed).toBe(false);
      expect(at(rig.server.store.get("addressallocations", name), "spec.node")).toBe("n2");
    },
  );
});

describe("a live address is freed by a collector (Calico #5044, #12257; spiderpool #3778)", () => {
  it("whose cache lacks the pod", async () => {
    cluster.pool("blue", ["10.0.0.0/24"], { mode: "PerAddress" });
    cluster.blockOf("10.0.0.0/28", { kind: "Shared" });
    cluster.allocation("10.0.0.5", cluster.pod("vm", { node: "n1" }), { node: "n1" });
    const controller = await all.start();
    await all.seen(controller);
    controller.view.pods.entries.clear();
    for (let look = 0; look < 3; look++) {
      await controller.pass(all.signal);
      await rig.clock.advance(60_000);
    }
    expect(cluster.allocations).toHaveLength(1);
  });

  it("whose cache lacks the node", async () => {
    cluster.node("n1");
    cluster.block("10.0.0.0/28", "n1");
    const controller = await all.start();
    controller.view.nodes.entries.clear();
    for (let look = 0; look < 3; look++) {
      await controller.pass(all.signal);
      await rig.clock.advance(60_000);
    }
    expect(cluster.blocks).toEqual(["default.10-0-0-0.28 Bound"]);
  });

  it("whose pod was deleted by force while its node does not answer", async () => {
    cluster.pool("blue", ["10.0.0.0/24"], { mode: "PerAddress" });
    cluster.blockOf("10.0.0.0/28", { kind: "Shared" });
    cluster.node("n1");
    const conditions = [{ type: "Ready", status: "Unknown" }];
    rig.server.store.merge("nodes", "n1", { status: { conditions } }, "status");
    cluster.allocation("10.0.0.5", cluster.pod("vm", { node: "n1" }), { node: "n1" });
    const controller = await all.start();
    cluster.remove("tenant/pods", "vm");
    await all.looks(controller, 60, 600, 6_000);
    expect(cluster.allocations).toHaveLength(1);
  });

  it("whose object is of a later release", async () => {
    cluster.node("n1");
    const block = cluster.block("10.0.0.0/28", "n1");
    rig.server.store.merge("addressblocks", block, { spec: { owner: { kind: "Later" } } });
    const controller = await all.start();
    cluster.remove("nodes", "n1");
    await rig.until(() => controller.view.nodes.entries.size === 0);
    for (let look = 0; look < 3; look++) {
      await controller.pass(all.signal);
      await rig.clock.advance(60_000);
    }
    expect(rig.server.store.all("addressblocks")).toHaveLength(1);
    expect(controller.view.blocks.entries.get(block)).toBeUndefined();
  });
});

describe("leaks (Calico #8548, #7839; spiderpool #412; kube-ovn #5367, #5654; Cilium #40350)", () => {
  it("all are free ten minutes after, although no DEL came, the controller was restarted, and requests failed", async () => {
    cluster.pool("blue", ["10.0.0.0/16"]);
    cluster.pool("red", ["10.9.0.0/24"], { mode: "PerAddress" });
    for (let block = 0; block < 4; block++) cluster.blockOf(`10.9.0.${block * 16}/28`, { kind: "Shared" });
    for (let node = 0; node < 8; node++) {
      cluster.node(`n${node}`);
      for (let block = 0; block < 4; block++) cluster.block(`10.0.${node}.${block * 16}/28`, `n${node}`);
      const pod = cluster.pod(`vm${node}`, { node: `n${node}` });
      cluster.allocation(`10.9.0.${node + 1}`, pod, { node: `n${node}` });
    }
    for (let node = 0; node < 8; node++) {
      cluster.remove("nodes", `n${node}`);
      cluster.remove("tenant/pods", `vm${node}`);
    }
    const first = await all.start();
    let requests = 0;
    const failing = () => {
      requests += 1;
      if (requests < 60 && requests % 7 === 0) throw new ApiFailure("unavailable", "it is ill", "test");
    };
    // A restart loses what was seen.
    const second = await all.start(disturbed(failing));
    for (let seconds = 0; seconds < 600; seconds += 30) {
      await all.look(seconds < 60 ? first : second);
      await rig.clock.advance(30_000);
    }
    expect(second.counts.passesFailed).toBeGreaterThan(0);
    expect(cluster.allocations).toEqual([]);
    expect(cluster.blocks).toHaveLength(4);
  });
});

describe("one block for several owners (Cilium #41986)", () => {
  it("two controllers, and agents that take blocks meanwhile, never share one", async () => {
    cluster.pool("red", ["10.0.0.0/24"], { mode: "PerAddress" });
    cluster.node("n1");
    const controllers = [await all.start(), await all.start()];
    // Agents of a pool that overlaps.
    const taken = ["10.0.0.32/28", "10.0.0.96/28"].map((cidr) => cluster.block(cidr, "n1"));
    await Promise.all(controllers.map((one) => one.supply(all.signal)));
    await Promise.all(controllers.map((one) => all.count(one)));
    expect(cluster.blocks).toHaveLength(16);
    for (const name of taken)
      expect(at(rig.server.store.get("addressblocks", name), "spec.owner.kind")).toBe("Node");
    const made = controllers.reduce((sum, { counts }) => sum + counts.blocksShared, 0);
    expect(made).toBe(14);
  });
});

describe("exhausted though addresses are free (Cilium #47910, #46598)", () => {
  it("a pool whose nodes were deleted has their addresses again", async () => {
    cluster.pool("blue", ["10.0.0.0/27"], { cooldownSeconds: 0 });
    for (const node of ["n1", "n2"]) cluster.node(node);
    cluster.block("10.0.0.0/28", "n1", 15);
    cluster.block("10.0.0.16/28", "n2", 15);
    const controller = await all.start();
    const exhausted = () =>
      (
        at(rig.server.store.get("addresspools", "blue"), "status.conditions") as {
          type: string;
          status: string;
        }[]
      )
        .filter(({ type }) => type === "Exhausted")
        .map(({ status }) => status);
    await all.count(controller);
    expect(exhausted()).toEqual(["True"]);
    cluster.remove("nodes", "n2");
    await all.looks(controller, 60, 0, 60);
    await all.count(controller);
    expect(exhausted()).toEqual(["False"]);
    expect(cluster.blocks).toEqual(["default.10-0-0-0.28 Bound"]);
  });
});
