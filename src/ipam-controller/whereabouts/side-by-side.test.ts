// whereabouts, agents and the import at once, in random orders: no address has two pods.
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Json } from "../../../test/stand-in/api-server/object-store.ts";
import { AgentRig, type TestAgent } from "../../../test/stand-in/ipam/agent-rig.ts";
import { type Fate, StandInWhereabouts } from "../../../test/stand-in/ipam/whereabouts.ts";
import { IpamController } from "../controller.ts";

/** Two blocks of 16: both plugins are often at the end of what they have. */
const RANGE = "10.7.0.0/27";
const POOL = "green";

interface Running {
  readonly pod: string;
  readonly container: string;
  readonly call: Generator<void, string | undefined, Fate>;
}

interface Living {
  readonly pod: string;
  readonly container: string;
  readonly address: string;
  readonly isOurs: boolean;
}

/** A cluster with a range that goes from one plugin to the other. */
class SideBySide {
  readonly rig: AgentRig;
  readonly old: StandInWhereabouts;
  readonly agents: TestAgent[] = [];
  readonly #stop = new AbortController();
  readonly running: Running[] = [];
  readonly deleting: Generator<void, void, Fate>[] = [];
  readonly living: Living[] = [];
  controller: IpamController | undefined;
  /** ADDs of each plugin that succeeded. */
  readonly given = { old: 0, ours: 0 };
  #pods = 0;

  constructor(rig: AgentRig) {
    this.rig = rig;
    const { server, clock } = rig.api;
    server.namespaces.add("kube-system");
    this.old = new StandInWhereabouts(server.store, RANGE, () => clock.monotonic());
  }

  async open(): Promise<void> {
    for (const node of ["n1", "n2"]) this.agents.push(await this.rig.agent({ node }));
    await this.#restart();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.rig[Symbol.asyncDispose]();
  }

  /** A pod of the old network is started; its ADD goes on with {@link step}. */
  startOld(): void {
    const { pod, container } = this.#newPod();
    this.running.push({ pod, container, call: this.old.add({ pod, container }) });
  }

  /** The next request of a call to whereabouts, which may be lost; or the call is killed. */
  step(which: number, fate: Fate | "killed"): void {
    const call = this.deleting[which % Math.max(1, this.deleting.length)];
    if (which % 2 === 0 && call !== undefined) {
      if (fate === "killed" || call.next(fate).done === true)
        this.deleting.splice(this.deleting.indexOf(call), 1);
      return;
    }
    const running = this.running[which % Math.max(1, this.running.length)];
    if (running === undefined) return;
    const end = () => this.running.splice(this.running.indexOf(running), 1);
    if (fate === "killed") {
      end();
      // kubelet deletes the sandbox, and with it what the ADD may have taken.
      this.deleting.push(this.old.del(running));
      return;
    }
    const { done, value } = running.call.next(fate);
    if (done !== true) return;
    end();
    if (typeof value === "string") this.#live({ ...running, address: value, isOurs: false });
    else this.deleting.push(this.old.del(running));
  }

  async addOurs(which: number): Promise<void> {
    const { pod, container } = this.#newPod();
    const agent = this.agents[which % this.agents.length];
    const answer = await agent?.call({ verb: "ADD", container, pod, pools: [POOL] });
    const [address] = answer?.json.ips?.[0]?.address.split("/") ?? [];
    if (address !== undefined) this.#live({ pod, container, address, isOurs: true });
  }

  /** @param isLost whether the DEL never comes */
  async end(which: number, isLost: boolean): Promise<void> {
    const one = this.living[which % Math.max(1, this.living.length)];
    if (one === undefined) return;
    const { store } = this.rig.api.server;
    this.living.splice(this.living.indexOf(one), 1);
    store.remove("tenant/pods", one.pod.split("/")[1] ?? "", {});
    if (one.isOurs) {
      for (const agent of this.agents)
        await agent.call({ verb: "DEL", container: one.container, pod: one.pod, pools: [POOL] });
    } else if (!isLost) this.deleting.push(this.old.del(one));
  }

  reconcile(): void {
    this.old.reconcile(new Map(this.living.map(({ pod, address }) => [pod, address])));
  }

  /** The pool is made with the upper half of the range, and grows to all of it. */
  grow(): void {
    const { store } = this.rig.api.server;
    const known = store.find("addresspools", POOL);
    if (known === undefined) {
      const subnets = [{ cidr: RANGE, ranges: ["10.7.0.16/28"] }];
      this.rig.pool(POOL, { subnets, whereabouts: {}, cooldownSeconds: 0 });
      return;
    }
    const spec = { ...(known["spec"] as Json), subnets: [{ cidr: RANGE }] };
    store.merge("addresspools", POOL, { metadata: { generation: 2 }, spec });
  }

  /** @param isNew whether the controller has just been started again, or another replica leads */
  async look(seconds: number, isNew: boolean): Promise<void> {
    await this.rig.api.clock.advance(seconds * 1000);
    if (isNew) await this.#restart();
    const { store } = this.rig.api.server;
    const { view } = this.controller as IpamController;
    const isSeen = (entries: ReadonlyMap<string, unknown>, plural: string) =>
      store.all(plural).every(({ metadata: { name, resourceVersion } }) => {
        const entry = entries.get(name) as { readonly resourceVersion?: string } | undefined;
        return entry?.resourceVersion === resourceVersion;
      });
    await this.rig.api.until(
      () => isSeen(view.pools.entries, "addresspools") && isSeen(view.blocks.entries, "addressblocks"),
    );
    await this.controller?.pass(this.#stop.signal);
    await this.controller?.supply(this.#stop.signal);
    await this.controller?.count(this.#stop.signal);
  }

  /** Until all pods of whereabouts are gone, all is ours. */
  async finish(): Promise<void> {
    while (this.running.length + this.deleting.length > 0)
      for (const which of [0, 1]) this.step(which, "answered");
    for (let index = this.living.length - 1; index >= 0; index--)
      if (this.living[index]?.isOurs === false) await this.end(index, true);
    this.reconcile();
    this.grow();
    this.grow();
    for (let minutes = 0; minutes < 6; minutes++) await this.look(61, false);
    const { status } = this.rig.api.server.store.get("addresspools", POOL);
    expect(status).toMatchObject({ whereabouts: { imported: ["10.7.0.1-10.7.0.30"], left: 0 } });
    const owners = this.rig.blocks.map(({ spec }) => (spec as { owner: { kind: string } }).owner.kind);
    expect(owners).not.toContain("Foreign");
  }

  async #restart(): Promise<void> {
    const { client, clock, logger } = this.rig.api;
    const controller = new IpamController({ api: client, clock, logger, whereabouts: "kube-system" });
    controller.follow(this.#stop.signal).catch(() => undefined);
    await controller.view.whenSynced();
    this.controller = controller;
  }

  #newPod() {
    this.#pods += 1;
    return { pod: `tenant/pod-${this.#pods}`, container: `c-${this.#pods}` };
  }

  #live(one: Living): void {
    const other = this.living.find(({ address }) => address === one.address);
    expect(other, `${one.address} of ${one.pod}`).toBeUndefined();
    this.living.push(one);
    this.given[one.isOurs ? "ours" : "old"] += 1;
    const networks = JSON.stringify([{ name: "tenant/net", interface: "net1", ips: [one.address] }]);
    const annotations = { "k8s.v1.cni.cncf.io/network-status": networks };
    const [namespace, name] = one.pod.split("/");
    const metadata = { name, namespace, annotations };
    this.rig.api.server.store.create("tenant/pods", { metadata, spec: { nodeName: "n9" } });
  }
}

/** A method of the cluster, with its arguments. */
const number = fc.nat(1000);
const fate = fc.oneof(
  { weight: 12, arbitrary: fc.constant<Fate | "killed">("answered") },
  { weight: 1, arbitrary: fc.constantFrom<Fate | "killed">("server error", "killed") },
);
const always = <Name extends string>(name: Name) => fc.constant(name);
const command = fc.oneof(
  { weight: 7, arbitrary: fc.tuple(always("startOld")) },
  {
    weight: 14,
    arbitrary: fc.tuple(
      always("steps"),
      fc.array(fc.tuple(number, fate), { minLength: 2, maxLength: 20, size: "max" }),
    ),
  },
  { weight: 6, arbitrary: fc.tuple(always("addOurs"), number) },
  { weight: 3, arbitrary: fc.tuple(always("end"), number, fc.boolean()) },
  { weight: 1, arbitrary: fc.tuple(always("reconcile")) },
  { weight: 2, arbitrary: fc.tuple(always("grow")) },
  { weight: 5, arbitrary: fc.tuple(always("look"), fc.constantFrom(1, 31, 61), fc.nat(9)) },
);

async function run(world: SideBySide, one: typeof command extends fc.Arbitrary<infer T> ? T : never) {
  switch (one[0]) {
    case "steps":
      for (const [which, how] of one[1]) world.step(which, how);
      return;
    case "addOurs":
      return world.addOurs(one[1]);
    case "end":
      return world.end(one[1], one[2]);
    case "look":
      return world.look(one[1], one[2] === 0);
    default:
      return world[one[0]]();
  }
}

describe("whereabouts and our agents on one range", () => {
  it("never give an address to two pods, and in the end all of it is ours", async () => {
    const given = { old: 0, ours: 0 };
    await fc.assert(
      fc.asyncProperty(
        fc.array(command, { minLength: 40, maxLength: 120, size: "max" }),
        async (commands) => {
          const world = new SideBySide(await AgentRig.open());
          try {
            await world.open();
            for (const one of commands) await run(world, one);
            await world.finish();
            given.old += world.given.old;
            given.ours += world.given.ours;
          } finally {
            await world.close();
          }
        },
      ),
      { numRuns: Number(process.env["KUBE_VHOSTUSER_WHEREABOUTS_RUNS"] ?? 12) },
    );
    console.log(JSON.stringify(given));
    // Otherwise nothing was shown.
    expect(Math.min(given.old, given.ours)).toBeGreaterThan(10);
  }, 300_000);
});
