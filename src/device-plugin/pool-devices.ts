import type { PoolConfig } from "../config/schema.ts";
import { deviceId } from "../names/device-id.ts";
import type { DeviceSource, PluginDevice } from "./device-source.ts";

/** The devices of one pool: as many as its capacity says, all healthy or none. */
export class PoolDevices implements DeviceSource {
  readonly #pool: PoolConfig;
  readonly #listeners = new Set<() => void>();
  #healthy = false;

  constructor(pool: PoolConfig) {
    this.#pool = pool;
  }

  current(): readonly PluginDevice[] {
    return Array.from({ length: this.#pool.capacity }, (_, index) => ({
      id: deviceId(this.#pool.name, index),
      healthy: this.#healthy,
      numaNodes: [],
    }));
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  setHealthy(healthy: boolean): void {
    if (healthy === this.#healthy) return;
    this.#healthy = healthy;
    for (const listener of this.#listeners) listener();
  }
}
