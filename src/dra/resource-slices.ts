// Publishes the node's devices as ResourceSlices, and keeps them published.
import { isDeepStrictEqual } from "node:util";
import { describeThrown } from "../failure/failure.ts";
import { ApiFailure, type ApiProblem } from "../kube-api/api-failure.ts";
import type { KubeApi, KubeObject, Resource, Selection } from "../kube-api/client.ts";
import { watchResource } from "../kube-api/watch.ts";
import type { Logger } from "../logging/logger.ts";
import type { Clock } from "../sync/clock.ts";
import { WorkQueue } from "../sync/work-queue.ts";
import { DRA_DRIVER } from "./dra-context.ts";
import { type SliceDevice, type SliceSpec, sliceSpecs } from "./inventory.ts";

/** What slices are published with. */
export interface SlicePublisherOptions {
  readonly api: Pick<KubeApi, "get" | "list" | "openWatch" | "create" | "update" | "delete">;
  /** Name of the node, and of its pool of slices. */
  readonly node: string;
  /** Default: this driver. */
  readonly driver?: string;
  /** The devices now, by whether the cluster can share one among claims. */
  readonly devices: (isShared: boolean) => readonly SliceDevice[];
  /** Called once the cluster has shown whether it can share devices, and when that changes. */
  readonly onShared?: (isShared: boolean) => void;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The kind of objects that drivers publish their devices in. */
export const SLICES: Resource = { group: "resource.k8s.io", version: "v1", plural: "resourceslices" };
const NODES: Resource = { group: "", version: "v1", plural: "nodes" };
const OBJECT = { apiVersion: "resource.k8s.io/v1", kind: "ResourceSlice" };
/** The only key of the queue. */
const ALL = "slices";
/** Compares without asking the API server: what a watch reported is written again at once. */
const RESYNC_MS = 30_000;
/** kubelet deletes a node's slices one by one, and each of ours is seen again when it was written. */
const SETTLE_MS = 200;
/** The slices are not what they were when last seen: the watch has yet to say so. */
const OVERTAKEN: readonly ApiProblem[] = ["not-found", "conflict", "exists"];

/** A slice of ours as the API server has it. */
type Slice = KubeObject & { readonly spec: SliceSpec };

/**
 * Keeps this node's slices of our driver as its devices are. kubelet deletes all of them when it starts, and when the
 * driver was disconnected for 30 s: they are published again then. Slices of other nodes and drivers are never touched.
 */
export class SlicePublisher {
  readonly #options: SlicePublisherOptions;
  readonly #driver: string;
  readonly #queue: WorkQueue;
  readonly #closing = new AbortController();
  readonly #running: Promise<unknown>;
  /** Ours by name, as last seen or written; undefined before the first list. */
  #slices: Map<string, Slice> | undefined;
  /** By name: what was written, and what the API server made of it. */
  readonly #kept = new Map<string, { readonly sent: SliceSpec; readonly spec: SliceSpec }>();
  #isShared: boolean | undefined;
  #hasWarned = false;

  constructor(options: SlicePublisherOptions) {
    this.#options = options;
    this.#driver = options.driver ?? DRA_DRIVER;
    this.#queue = new WorkQueue({
      work: (_, signal) => this.#publish(signal),
      onFailure: (_, error) => this.#warn(error),
      resync: { everyMs: RESYNC_MS, keys: () => [ALL] },
      clock: options.clock,
    });
    const { signal } = this.#closing;
    this.#running = Promise.all([this.#queue.run(signal), this.#follow(signal).catch(() => undefined)]);
  }

  /** To be called when devices may have changed. */
  changed(): void {
    this.#queue.add(ALL);
  }

  /** Slices stay: the next daemon goes on with them, and kubelet deletes them where none comes. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { api, node, clock, logger } = this.#options;
    const selection = slicesOf(node, this.#driver);
    const onFailure = (failure: ApiFailure) => {
      if (this.#slices === undefined || !failure.isRetryable) this.#warn(failure);
      else logger.debug({ reason: failure.message }, "the watch of ResourceSlices was interrupted");
    };
    for await (const change of watchResource(
      { api, resource: SLICES, selection, clock, onFailure },
      signal,
    )) {
      const objects = (change.kind === "all" ? change.objects : [change.object]).filter((one) =>
        this.#isOurs(one),
      );
      if (change.kind === "all") this.#slices = new Map();
      for (const object of objects) this.#note(object, change.kind === "removed");
      if (change.kind === "all") this.#queue.add(ALL);
      else this.#queue.addAfter(ALL, SETTLE_MS);
    }
  }

  #isOurs(object: KubeObject): object is Slice {
    const { driver, nodeName, pool } = (object["spec"] ?? {}) as Partial<SliceSpec>;
    return driver === this.#driver && nodeName === this.#options.node && pool !== undefined;
  }

  #note(slice: Slice, isRemoved: boolean): void {
    const { name } = slice.metadata;
    if (isRemoved) this.#slices?.delete(name);
    else this.#slices?.set(name, slice);
  }

  async #publish(signal: AbortSignal): Promise<void> {
    if (this.#slices === undefined) return;
    if (this.#isShared === undefined) this.#setShared(await this.#canShare(signal));
    const { api, node, devices, logger } = this.#options;
    const wanted = planSlices(
      { node, driver: this.#driver },
      devices(this.#isShared === true),
      [...this.#slices.values()],
      (one, spec) => this.#isAsSent(one, spec),
    );
    for (const { metadata } of wanted.obsolete) {
      const { name, uid = "", resourceVersion = "" } = metadata;
      await api.delete(SLICES, name, { uid, resourceVersion }, signal).catch(unlessGone);
      this.#slices.delete(name);
    }
    // Read each time: the API server deletes slices whose owner was created again under another uid.
    const owner = wanted.write.some(({ old }) => old === undefined)
      ? (await api.get(NODES, node, signal)).metadata
      : undefined;
    for (const { name, spec, old } of wanted.write) {
      const written =
        old === undefined
          ? await api.create(
              SLICES,
              { ...OBJECT, metadata: { name, ownerReferences: [ownedBy(owner)] }, spec },
              signal,
            )
          : await api.update(SLICES, { ...OBJECT, metadata: old.metadata, spec }, signal);
      if (!this.#isOurs(written)) throw new ApiFailure("invalid", "the API server changed the slice", name);
      this.#note(written, false);
      this.#kept.set(name, { sent: spec, spec: written.spec });
      if (this.#isShared && !keepsShares(written)) this.#setShared(false);
    }
    if (wanted.write.length === 0 && wanted.obsolete.length === 0) return;
    logger.info(
      { changed: wanted.write.length, removed: wanted.obsolete.length },
      "ResourceSlices published",
    );
    this.#hasWarned = false;
  }

  /** Also where the API server writes a value in other words, as it does with quantities. */
  #isAsSent({ metadata: { name }, spec }: Slice, wanted: SliceSpec): boolean {
    const kept = this.#kept.get(name);
    return (
      isDeepStrictEqual(spec, wanted) ||
      (kept !== undefined && isDeepStrictEqual(kept.sent, wanted) && isDeepStrictEqual(kept.spec, spec))
    );
  }

  /** Fields of a feature gate that is off are dropped without a word: a slice that is not stored shows it. */
  async #canShare(signal: AbortSignal): Promise<boolean> {
    const { api, node } = this.#options;
    const device = { name: "probe", attributes: {}, allowMultipleAllocations: true } as const;
    const [spec] = sliceSpecs(node, [device], 1, this.#driver);
    const probe = { ...OBJECT, metadata: { name: sliceName(node, this.#driver, "probe") }, spec };
    return keepsShares(await api.create(SLICES, probe, signal, { isDryRun: true }));
  }

  #setShared(isShared: boolean): void {
    const { logger, onShared } = this.#options;
    this.#isShared = isShared;
    if (!isShared)
      logger.warn(
        { reason: "the feature gate DRAConsumableCapacity is off" },
        "the cluster cannot share a device among claims",
      );
    onShared?.(isShared);
    this.#queue.add(ALL);
  }

  /** Once until slices are published again. */
  #warn(error: unknown): void {
    const { logger } = this.#options;
    const fields = { reason: describeThrown(error) };
    const isOvertaken = error instanceof ApiFailure && OVERTAKEN.includes(error.problem);
    if (this.#hasWarned || isOvertaken) logger.debug(fields, "ResourceSlices cannot be published");
    else logger.warn(fields, "ResourceSlices cannot be published");
    this.#hasWarned ||= !isOvertaken;
  }
}

/** Selects the slices of a node that are this driver's. */
export function slicesOf(node: string, driver: string = DRA_DRIVER): Selection {
  return { fieldSelector: `spec.nodeName=${node},spec.driver=${driver}` };
}

/** What is to be written, in this order: obsolete slices are deleted first. */
interface SlicePlan {
  readonly obsolete: readonly Slice[];
  readonly write: readonly {
    readonly name: string;
    readonly spec: SliceSpec;
    readonly old?: Slice | undefined;
  }[];
}

/**
 * Compares the slices there are with those that should be. One slice is changed within its generation; where several are
 * touched, all get the next generation, so that a reader never mixes old and new ones (resource.k8s.io/v1, ResourcePool).
 */
function planSlices(
  { node, driver }: { readonly node: string; readonly driver: string },
  devices: readonly SliceDevice[],
  slices: readonly Slice[],
  isSame: (slice: Slice, wanted: SliceSpec) => boolean,
): SlicePlan {
  const generation = Math.max(0, ...slices.map(({ spec }) => spec.pool.generation));
  const plan = (of: number): SlicePlan => {
    const specs = new Map(
      sliceSpecs(node, devices, of, driver).map((spec, index) => [sliceName(node, driver, index), spec]),
    );
    const write = [...specs].flatMap(([name, spec]) => {
      const old = slices.find(({ metadata }) => metadata.name === name);
      return old !== undefined && isSame(old, spec) ? [] : [{ name, spec, old }];
    });
    return { obsolete: slices.filter(({ metadata }) => !specs.has(metadata.name)), write };
  };
  const within = plan(generation);
  const [first, ...others] = within.write;
  const isSmall = within.obsolete.length === 0 && others.length === 0;
  return isSmall && (first === undefined || first.old !== undefined) ? within : plan(generation + 1);
}

/**
 * The same for each start, so that a slice is never published twice. The chart's admission policy knows the form: the daemon
 * of another node cannot take a name away.
 */
function sliceName(node: string, driver: string, index: number | "probe"): string {
  return `${node}-${driver}-${String(index).padStart(5, "0")}`;
}

function ownedBy({ name, uid }: Partial<KubeObject["metadata"]> = {}): object {
  return { apiVersion: "v1", kind: "Node", name, uid, controller: true };
}

function keepsShares({ spec }: KubeObject): boolean {
  const { devices = [] } = spec as Partial<SliceSpec>;
  return devices.every(({ allowMultipleAllocations }) => allowMultipleAllocations === true);
}

function unlessGone(error: unknown): void {
  if (!(error instanceof ApiFailure && error.problem === "not-found")) throw error;
}
