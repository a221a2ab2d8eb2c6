import { type DeviceEntry, readCheckpoint, writeCheckpoint } from "./checkpoint.ts";
import { type Affinity, chooseDevices, type PreferenceCall } from "./choose-devices.ts";
import type { ListedDevice, PluginClient, PluginOptions } from "./plugin-client.ts";
import type { ContainerRequest, PodRequest } from "./pod.ts";
import type { PluginHandler } from "./registration-server.ts";
import { shuffled } from "./seeded-random.ts";

interface Resource {
  healthy: Set<string>;
  unhealthy: Set<string>;
  numaNodes: Map<string, readonly number[]>;
  /** Undefined while the plugin is not connected. */
  plugin: { readonly client: PluginClient; readonly options: PluginOptions } | undefined;
}

/** A call of Allocate that kubelet made. */
export interface AllocateCall {
  readonly podUid: string;
  readonly container: string;
  readonly resource: string;
  readonly ids: readonly string[];
}

/** What a device manager works with. */
export interface DeviceManagerOptions {
  readonly directory: string;
  readonly random: () => number;
  /** UIDs of the pods that are not over. */
  readonly activePods: () => ReadonlySet<string>;
  readonly calls: AllocateCall[];
  /** Calls of GetPreferredAllocation. */
  readonly preferenceCalls: PreferenceCall[];
}

/** kubelet's device manager: which devices there are, and which container holds which. One life of it. */
export class DeviceManager implements PluginHandler {
  readonly #options: DeviceManagerOptions;
  readonly #resources = new Map<string, Resource>();
  #entries: DeviceEntry[];
  /** Ids that count as taken; entries lag behind it only inside one allocation. */
  #taken = new Map<string, Set<string>>();

  constructor(options: DeviceManagerOptions) {
    this.#options = options;
    const checkpoint = readCheckpoint(options.directory);
    this.#entries = [...checkpoint.entries];
    for (const resource of checkpoint.registeredResources) this.#resource(resource);
    this.#countTaken();
  }

  pluginConnected(name: string, client: PluginClient, options: PluginOptions): void {
    this.#resource(name).plugin = { client, options };
  }

  pluginListed(name: string, devices: readonly ListedDevice[]): void {
    const resource = this.#resource(name);
    const ids = (health: boolean) =>
      new Set(devices.filter((device) => (device.health === "Healthy") === health).map(({ ID }) => ID));
    resource.healthy = ids(true);
    resource.unhealthy = ids(false);
    resource.numaNodes = new Map(
      devices.map(({ ID, topology }) => [ID, topology?.nodes.map((node) => node.ID) ?? []]),
    );
    this.#write();
  }

  pluginDisconnected(name: string): void {
    const resource = this.#resource(name);
    resource.plugin = undefined;
    for (const id of resource.healthy) resource.unhealthy.add(id);
    resource.healthy = new Set();
  }

  /** What the node reports; undefined for a resource that was never registered. */
  capacity(name: string): { readonly capacity: number; readonly allocatable: number } | undefined {
    const resource = this.#resources.get(name);
    if (resource === undefined) return undefined;
    return {
      capacity: resource.healthy.size + resource.unhealthy.size,
      allocatable: resource.healthy.size,
    };
  }

  /** Healthy devices of all resources, with their NUMA nodes. */
  healthyDevices(): {
    readonly resource: string;
    readonly id: string;
    readonly numaNodes: readonly number[];
  }[] {
    return [...this.#resources].flatMap(([resource, { healthy, numaNodes }]) =>
      [...healthy].map((id) => ({ resource, id, numaNodes: numaNodes.get(id) ?? [] })),
    );
  }

  /** What a container holds, of all resources. */
  held(podUid: string, container: string): readonly DeviceEntry[] {
    return this.#entries.filter((entry) => entry.podUid === podUid && entry.container === container);
  }

  /** Frees what pods hold that are over: kubelet does so before an allocation and before PodResources' List. */
  collect(): void {
    const active = this.#options.activePods();
    this.#entries = this.#entries.filter(({ podUid }) => active.has(podUid));
    this.#countTaken();
  }

  /**
   * Admits a pod: init containers first, whose devices later containers may get. Throws where kubelet refuses.
   * @param affinity what the topology manager says for a container
   */
  async admit(
    pod: PodRequest,
    podUid: string,
    affinity: (container: ContainerRequest) => Affinity = () => undefined,
  ): Promise<void> {
    const reusable = new Map<string, Set<string>>();
    for (const container of pod.initContainers ?? []) {
      await this.#allocateContainer(podUid, container, reusable, affinity(container));
      this.#shareOrKeep(podUid, container.name, reusable, container.restartable !== true);
    }
    for (const container of pod.containers) {
      await this.#allocateContainer(podUid, container, reusable, affinity(container));
      this.#shareOrKeep(podUid, container.name, reusable, false);
    }
  }

  /** Healthy free devices of a resource, with their NUMA nodes. */
  freeDevices(name: string): readonly { readonly id: string; readonly numaNodes: readonly number[] }[] {
    this.collect();
    const resource = this.#resources.get(name);
    const taken = this.#taken.get(name);
    return [...(resource?.healthy ?? [])]
      .filter((id) => taken?.has(id) !== true)
      .map((id) => ({ id, numaNodes: resource?.numaNodes.get(id) ?? [] }));
  }

  #shareOrKeep(podUid: string, name: string, reusable: Map<string, Set<string>>, share: boolean): void {
    for (const { resource, ids } of this.held(podUid, name)) {
      const set = reusable.get(resource) ?? new Set();
      for (const id of ids) share ? set.add(id) : set.delete(id);
      reusable.set(resource, set);
    }
  }

  async #allocateContainer(
    podUid: string,
    container: ContainerRequest,
    reusable: ReadonlyMap<string, ReadonlySet<string>>,
    affinity: Affinity,
  ): Promise<void> {
    this.collect();
    for (const [name, count] of shuffled(Object.entries(container.resources ?? {}), this.#options.random)) {
      if (!Number.isInteger(count) || count < 0) throw new Error(`${name}: ${count} is not a whole quantity`);
      const resource = this.#resources.get(name);
      if (resource === undefined) throw new Error(`cannot allocate unregistered device ${name}`);
      if (count === 0) continue;
      const cached = this.held(podUid, container.name).find((entry) => entry.resource === name);
      if (cached !== undefined) {
        checkCached(name, cached.ids, resource.healthy);
        continue;
      }
      try {
        const ids = await this.#choose(name, resource, count, reusable.get(name) ?? new Set(), affinity);
        if (resource.plugin === undefined) throw new Error(`endpoint of ${name} has been stopped`);
        this.#options.calls.push({ podUid, container: container.name, resource: name, ids });
        const answer = await resource.plugin.client.allocate(ids);
        const numaNodes = Object.fromEntries(ids.map((id) => [id, resource.numaNodes.get(id) ?? []]));
        this.#entries.push({ podUid, container: container.name, resource: name, ids, numaNodes, answer });
        if (resource.plugin.options.pre_start_required) await resource.plugin.client.preStart(ids);
      } finally {
        this.#countTaken();
      }
    }
    this.#write();
  }

  async #choose(
    name: string,
    resource: Resource,
    count: number,
    reusable: ReadonlySet<string>,
    affinity: Affinity,
  ): Promise<readonly string[]> {
    const { random } = this.#options;
    if (resource.healthy.size === 0) {
      throw new Error(`no healthy devices present; cannot allocate unhealthy devices ${name}`);
    }
    const first = shuffled(reusable, random).slice(0, count);
    const missing = count - first.length;
    if (missing === 0) return first;
    const taken = this.#taken.get(name) ?? new Set();
    const free = [...resource.healthy].filter((id) => !taken.has(id));
    if (free.length < missing) {
      throw new Error(
        `requested number of devices unavailable for ${name}. Requested: ${missing}, Available: ${free.length}`,
      );
    }
    const chosen = await chooseDevices({
      resource: name,
      count,
      first,
      free,
      nodesOf: (id) => resource.numaNodes.get(id) ?? [],
      affinity,
      plugin: resource.plugin,
      random,
      calls: this.#options.preferenceCalls,
    });
    this.#taken.set(name, new Set([...taken, ...chosen]));
    return shuffled(chosen, random);
  }

  #resource(name: string): Resource {
    const known = this.#resources.get(name);
    if (known !== undefined) return known;
    const fresh: Resource = {
      healthy: new Set(),
      unhealthy: new Set(),
      numaNodes: new Map(),
      plugin: undefined,
    };
    this.#resources.set(name, fresh);
    return fresh;
  }

  #countTaken(): void {
    this.#taken = new Map();
    for (const { resource, ids } of this.#entries) {
      this.#taken.set(resource, new Set([...(this.#taken.get(resource) ?? []), ...ids]));
    }
  }

  #write(): void {
    writeCheckpoint(this.#options.directory, {
      entries: this.#entries,
      registeredResources: [...this.#resources.keys()],
    });
  }
}

/** What kubelet asks of devices in its checkpoint when a pod is admitted whose containers do not run. */
function checkCached(name: string, ids: readonly string[], healthy: ReadonlySet<string>): void {
  if (healthy.size === 0) {
    throw new Error(`no healthy devices present; cannot allocate unhealthy devices ${name}`);
  }
  if (ids.some((id) => !healthy.has(id))) {
    throw new Error(
      `previously allocated devices are no longer healthy; cannot allocate unhealthy devices ${name}`,
    );
  }
}
