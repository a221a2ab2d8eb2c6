import { type ControllerOptions, IpamController } from "../../../src/ipam-controller/controller.ts";
import type { ControllerApi } from "../../../src/ipam-controller/controller-context.ts";
import type { NodeEvent } from "../../../src/observe/events/event.ts";
import { type ApiRig, startApiRig } from "../api-server/api-rig.ts";
import { IpamCluster } from "./cluster.ts";

/** Watches of a controller without allocations; with them it watches pods too. */
const WATCHES = 5;
/** More of one that serves claims, and once more of one that makes them. */
const CLAIM_WATCHES = 2;

/** Controllers that follow a stand-in cluster with a default space; their looks and counts are the test's. */
export class ControllerRig {
  readonly rig: ApiRig;
  readonly cluster: IpamCluster;
  /** Events that were posted. */
  readonly posted: NodeEvent[] = [];
  #stop = new AbortController();

  private constructor(rig: ApiRig) {
    this.rig = rig;
    this.cluster = new IpamCluster(rig.server);
    this.cluster.space();
  }

  static async open(): Promise<ControllerRig> {
    return new ControllerRig(await startApiRig());
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /**
   * @param api what it uses; default the client as it is
   * @param more what differs from the defaults; its claims are worked on until `signal` fires
   */
  async start(
    api: ControllerApi = this.rig.client,
    {
      signal = this.signal,
      ...more
    }: Pick<ControllerOptions, "hasClaims" | "managesClaims" | "random" | "whereabouts"> & {
      signal?: AbortSignal;
    } = {},
  ): Promise<IpamController> {
    const { server, clock, logger } = this.rig;
    const post = (event: NodeEvent) => void this.posted.push(event);
    const controller = new IpamController({ api, clock, logger, post, ...more });
    const open = server.watches.length;
    controller.follow(signal).catch(() => undefined);
    await controller.view.whenSynced();
    const switches = [more.hasClaims, more.managesClaims].filter((one) => one === true);
    const watches = WATCHES + switches.length * CLAIM_WATCHES;
    await this.rig.until(() => server.watches.length >= open + watches);
    controller.claims?.run(signal).catch(() => undefined);
    return controller;
  }

  /** Waits until a controller has seen all that the cluster has. */
  async seen({ view, claims }: IpamController): Promise<void> {
    const { store } = this.rig.server;
    const isSeen = (entries: ReadonlyMap<string, unknown>, collection: string) =>
      store
        .all(collection)
        .map(({ metadata: { name } }) => name)
        .sort()
        .join() === [...entries.keys()].sort().join();
    const versions = (collection: string) =>
      store.all(collection).map(({ metadata: { name, resourceVersion } }) => `${name} ${resourceVersion}`);
    const known = (entries: Iterable<readonly [string, { readonly resourceVersion: string } | undefined]>) =>
      [...entries].map(([name, entry]) => `${name} ${entry?.resourceVersion}`);
    const pods = () => store.all("pods").map(({ metadata: { uid } }) => uid);
    const nodes = () =>
      store
        .all("nodes")
        .map(({ metadata: { uid }, spec }) => `${uid} ${JSON.stringify(spec).includes("out-of")}`);
    const claimsOf = () => store.all("ipamclaims").map(({ metadata: { uid } }) => uid);
    await this.rig.until(
      () =>
        (claims === undefined ||
          claimsOf().sort().join() ===
            [...claims.view.claims.entries.values()]
              .map((one) => (typeof one === "string" ? one : one.uid))
              .sort()
              .join()) &&
        versions("addresspools").sort().join() === known(view.pools.entries).sort().join() &&
        versions("addressblocks").sort().join() === known(view.blocks.entries).sort().join() &&
        isSeen(view.spaces.entries, "addressspaces") &&
        isSeen(view.allocations.entries, "addressallocations") &&
        nodes().sort().join() ===
          [...view.nodes.entries.values()]
            .map(({ uid, isOutOfService }) => `${uid} ${isOutOfService}`)
            .sort()
            .join() &&
        (view.allocations.entries.size === 0 ||
          pods().sort().join() === [...view.pods.entries.keys()].sort().join()),
    );
  }

  /** A look of a controller that has seen all. */
  async look(controller: IpamController): Promise<void> {
    await this.seen(controller);
    await controller.pass(this.signal);
  }

  /** Looks at once, and after each of these times in seconds. */
  async looks(controller: IpamController, ...seconds: readonly number[]): Promise<void> {
    await this.look(controller);
    for (const one of seconds) {
      await this.rig.clock.advance(one * 1000);
      await this.look(controller);
    }
  }

  /** Shared blocks and a count, of a controller that has seen all. */
  async count(controller: IpamController): Promise<void> {
    await this.seen(controller);
    await controller.supply(this.signal);
    await controller.count(this.signal);
  }

  /** Ends all controllers; others may be started then. */
  end(): void {
    this.#stop.abort();
    this.#stop = new AbortController();
  }

  async close(): Promise<void> {
    this.end();
    await this.rig.close();
  }
}
