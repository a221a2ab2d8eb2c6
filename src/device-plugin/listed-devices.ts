import type { PoolConfig } from "../config/schema.ts";
import { deviceId, parseDeviceId } from "../names/device-id.ts";
import { planDeviceList } from "./device-list.ts";
import type { DeviceSource, FoundDevice, PluginDevice } from "./device-source.ts";
import type { DeviceUses } from "./device-uses.ts";

/** What the switch says of all devices of a pool. */
export interface PoolState {
  readonly healthy: boolean;
  /** NUMA nodes of the hardware behind the bridge; empty for no affinity. */
  readonly numaNodes: readonly number[];
}

/**
 * The devices of one pool as kubelet is told of them. Listeners are called when the list has changed and at no other
 * time; what is freed changes it with the next {@link ListedDevices.update} only, so that a pool that shrinks by a
 * thousand devices does not send a thousand lists.
 */
export class ListedDevices implements DeviceSource {
  readonly #uses: DeviceUses;
  readonly #listeners = new Set<() => void>();
  readonly #unsubscribe: () => void;
  #pool: PoolConfig;
  #state: PoolState = { healthy: false, numaNodes: [] };
  #devices: ReadonlyMap<string, PluginDevice> = new Map();
  #list: readonly PluginDevice[] = [];
  #indices: readonly number[] = [];
  /** Devices that left the list at this update and at the one before: kubelet may not have read it yet. */
  #left: ReadonlySet<string>[] = [];
  /** Whether the list may not be what the uses ask for any more. */
  #stale = true;

  constructor(options: { readonly pool: PoolConfig; readonly uses: DeviceUses }) {
    this.#pool = options.pool;
    this.#uses = options.uses;
    this.#unsubscribe = options.uses.subscribe((devices) => {
      this.#stale ||= devices.some((device) => this.#concerns(device));
    });
    this.#plan();
    this.#make();
  }

  current(): readonly PluginDevice[] {
    return this.#list;
  }

  find(id: string): FoundDevice | undefined {
    const device = this.#devices.get(id) ?? this.#lately(id);
    return device && { ...device, lastUse: this.#uses.lastUse(this.#pool.name, id) };
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Takes another configuration of the same pool at once. */
  reconfigure(pool: PoolConfig): void {
    this.#pool = pool;
    this.#stale = true;
    this.#refresh(this.#state);
  }

  /** Takes what the switch says, and whatever was freed since; called now and then also when nothing happened. */
  update(state: PoolState): void {
    this.#refresh(state);
  }

  close(): void {
    this.#unsubscribe();
    this.#listeners.clear();
  }

  #refresh(state: PoolState): void {
    const before = this.#list;
    const isPlanned = this.#stale && this.#plan();
    const isSaid =
      state.healthy === this.#state.healthy && state.numaNodes.join() === this.#state.numaNodes.join();
    this.#state = state;
    if (isPlanned || !isSaid) this.#make();
    const left = before === this.#list ? [] : before.filter(({ id }) => !this.#devices.has(id));
    this.#left = [new Set(left.map(({ id }) => id)), ...this.#left.slice(0, 1)];
    if (before !== this.#list) for (const listener of this.#listeners) listener();
  }

  /** Decides anew which devices to list. @returns whether others than before */
  #plan(): boolean {
    const inUse = new Set<number>();
    const blocked = new Set<number>();
    for (const [device, resource] of this.#uses.ofPool(this.#pool.name)) {
      const index = parseDeviceId(device)?.index;
      if (index !== undefined) (resource === this.#pool.resource ? inUse : blocked).add(index);
    }
    const listed = new Set(this.#indices);
    const indices = planDeviceList({ capacity: this.#pool.capacity, inUse, blocked, listed });
    this.#stale = false;
    const isSame = indices.length === listed.size && indices.every((index) => listed.has(index));
    this.#indices = indices;
    return !isSame;
  }

  #make(): void {
    this.#list = this.#indices.map((index) => ({ id: deviceId(this.#pool.name, index), ...this.#state }));
    this.#devices = new Map(this.#list.map((device) => [device.id, device]));
  }

  /** Whether a change of this device's use can change the list: in a pool that was never shrunk none can. */
  #concerns(id: string): boolean {
    const device = parseDeviceId(id);
    if (device?.pool !== this.#pool.name) return false;
    const isPlain =
      this.#indices.length === this.#pool.capacity && this.#indices.at(-1) === this.#pool.capacity - 1;
    if (!isPlain || device.index >= this.#pool.capacity) return true;
    const resource = this.#uses.resourceOf(device.pool, id);
    return resource !== undefined && resource !== this.#pool.resource;
  }

  /** A device that left the list, unless a pod has it under another resource. */
  #lately(id: string): PluginDevice | undefined {
    if (!this.#left.some((ids) => ids.has(id))) return undefined;
    const resource = this.#uses.resourceOf(this.#pool.name, id);
    const isBlocked = resource !== undefined && resource !== this.#pool.resource;
    return isBlocked ? undefined : { id, ...this.#state };
  }
}
