// The devices of one pool as kubelet sees them.
import { isDeepStrictEqual } from "node:util";
import type { PoolConfig } from "../config/schema.ts";
import { deviceId } from "../names/device-id.ts";
import { type DeviceUses, planDevices, splitCapacity } from "../pools/capacity.ts";
import type { PoolState } from "../pools/pool-monitor.ts";

/** A device as kubelet sees it. */
export interface PluginDevice {
  /** At most 63 characters, unique in the resource. */
  readonly id: string;
  /** An unhealthy device counts as capacity, but is given to no pod. */
  readonly healthy: boolean;
  /** NUMA nodes that it is near to; empty for no affinity. */
  readonly numaNodes: readonly number[];
}

/** Where a plugin gets its devices from. */
export interface DeviceSource {
  /** All devices now; one that is left out is gone from the node's capacity. A list once given does not change. */
  current(): readonly PluginDevice[];
  /** Calls `listener` after every change of the list, until the returned function is called. */
  subscribe(listener: () => void): () => void;
  /**
   * Grows with the time of a device's last use, 0 for never. Undefined for one that may not be allocated: it was never
   * listed. One that has left the list may, for kubelet need not have read that yet.
   */
  lastUse(id: string): number | undefined;
}

/**
 * The devices of one pool. The list changes with {@link PoolDevices.update} only, not with every release, so that
 * a pool whose capacity was lowered by a thousand does not send a thousand lists.
 */
export class PoolDevices implements DeviceSource {
  readonly #pool: PoolConfig;
  readonly #uses: DeviceUses;
  readonly #listeners = new Set<() => void>();
  /** Every device that was ever listed. */
  readonly #known = new Set<string>();
  #state: PoolState = { healthy: false, uplink: {} };
  #usesSeen = -1;
  #indices: readonly number[] = [];
  #list: readonly PluginDevice[] = [];

  constructor(pool: PoolConfig, uses: DeviceUses) {
    this.#pool = pool;
    this.#uses = uses;
    this.update(this.#state);
  }

  /** What the switch said last. */
  get state(): PoolState {
    return this.#state;
  }

  current(): readonly PluginDevice[] {
    return this.#list;
  }

  lastUse(id: string): number | undefined {
    return this.#known.has(id) ? this.#uses.lastUse(id) : undefined;
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Lists what the switch says, and what was allocated and freed since; to be called now and then. */
  update(state: PoolState): void {
    const isSameState =
      state.healthy === this.#state.healthy && isDeepStrictEqual(state.uplink, this.#state.uplink);
    if (!this.#plan() && isSameState) return;
    this.#state = state;
    const { healthy, uplink } = state;
    const numaNodes = uplink.numaNode === undefined ? [] : [uplink.numaNode];
    this.#list = this.#indices.map((index) => ({ id: deviceId(this.#pool.name, index), healthy, numaNodes }));
    for (const { id } of this.#list) this.#known.add(id);
    for (const listener of this.#listeners) listener();
  }

  /** @returns whether the list has other devices than before */
  #plan(): boolean {
    if (this.#usesSeen === this.#uses.changes) return false;
    this.#usesSeen = this.#uses.changes;
    const { name, resource } = this.#pool;
    const held = this.#uses.ofPool(name);
    const { plugin: capacity } = splitCapacity(this.#pool, {
      ...{ plugin: held.size, claims: this.#uses.claimsOf(name) },
    });
    const indices = planDevices({ capacity, resource }, held);
    if (indices.join() === this.#indices.join()) return false;
    this.#indices = indices;
    return true;
  }
}
