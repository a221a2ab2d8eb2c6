import type { Pool } from "../attachment/node-context.ts";
import type { PoolConfig } from "../config/schema.ts";
import type { Dataplane } from "../dataplane/dataplane.ts";
import type { Logger } from "../logging/logger.ts";
import type { DeviceUses } from "./device-uses.ts";

/** What the node's pools are made with. */
export interface NodePoolsOptions {
  readonly pools: readonly PoolConfig[];
  readonly open: (config: PoolConfig["dataplane"]) => Dataplane;
  readonly uses: DeviceUses;
  readonly logger: Logger;
}

/**
 * The node's pools with their switches: those that are configured, and those that were until their last device is
 * freed, for the pods' interfaces have to be looked after. One connection to each switch, however many pools stand
 * for bridges of it.
 */
export class NodePools {
  readonly #options: NodePoolsOptions;
  readonly #pools = new Map<string, Pool>();
  readonly #retired = new Set<string>();
  readonly #switches = new Map<string, Dataplane>();
  readonly #unsubscribe: () => void;
  #closing: Promise<void> = Promise.resolve();

  constructor(options: NodePoolsOptions) {
    this.#options = options;
    this.replace(options.pools);
    for (const pool of options.uses.pools().filter((name) => !this.#pools.has(name))) {
      options.logger.error(
        { pool },
        "pods hold devices of a pool that is not configured; put it back until they are gone",
      );
    }
    this.#unsubscribe = options.uses.subscribe(() => this.#dropUnused());
  }

  /** By name; always what it is at the moment. */
  get byName(): ReadonlyMap<string, Pool> {
    return this.#pools;
  }

  /** Takes over what is configured now; a pool that is gone stays for as long as a device of it is in use. */
  replace(pools: readonly PoolConfig[]): void {
    const configured = new Set(pools.map(({ name }) => name));
    for (const name of this.#pools.keys()) {
      if (configured.has(name) || this.#retired.has(name)) continue;
      this.#retired.add(name);
      if (this.#options.uses.has(name)) {
        this.#options.logger.info({ pool: name }, "a removed pool is looked after until its pods are gone");
      }
    }
    for (const config of pools) {
      this.#retired.delete(config.name);
      this.#pools.set(config.name, { config, dataplane: this.#switch(config.dataplane) });
    }
    this.#dropUnused();
  }

  async close(): Promise<void> {
    this.#unsubscribe();
    this.#pools.clear();
    this.#closeUnused();
    await this.#closing;
  }

  #switch(config: PoolConfig["dataplane"]): Dataplane {
    const { bridge: _, ...where } = config;
    const key = JSON.stringify(where);
    const dataplane = this.#switches.get(key) ?? this.#options.open(config);
    this.#switches.set(key, dataplane);
    return dataplane;
  }

  #dropUnused(): void {
    if (this.#retired.size === 0) return;
    for (const name of this.#retired) {
      if (this.#options.uses.has(name)) continue;
      this.#retired.delete(name);
      this.#pools.delete(name);
    }
    this.#closeUnused();
  }

  #closeUnused(): void {
    const used = new Set([...this.#pools.values()].map(({ dataplane }) => dataplane));
    for (const [key, dataplane] of this.#switches) {
      if (used.has(dataplane)) continue;
      this.#switches.delete(key);
      // One that does not close must not keep the others.
      this.#closing = this.#closing
        .then(() => dataplane.close())
        .catch((error: unknown) => {
          this.#options.logger.warn({ err: error }, "closing the connection to a switch failed");
        });
    }
  }
}
