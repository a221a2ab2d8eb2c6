import { existsSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import type { Pool } from "../attachment/node-context.ts";
import type { PoolConfig } from "../config/schema.ts";
import type { Dataplane } from "../dataplane/dataplane.ts";
import { isSameSwitch, socketOf } from "../dataplane/switch-kind.ts";
import type { Logger } from "../logging/logger.ts";
import type { DeviceUses } from "./device-uses.ts";
import { recordedPool } from "./recorded-pool.ts";

/** What the node's pools are made with. */
export interface NodePoolsOptions {
  readonly pools: readonly PoolConfig[];
  readonly open: (config: PoolConfig["dataplane"]) => Dataplane;
  readonly uses: DeviceUses;
  readonly logger: Logger;
  /** Whether a switch's socket exists; default looks at the file system. */
  readonly isThere?: (socket: string) => boolean;
}

/**
 * The node's pools with their switches: those that are configured, and those that were until their last device is
 * freed, for the pods' interfaces have to be looked after; over a restart the allocations' records tell of them. One
 * connection to each switch, however many pools stand for bridges of it.
 */
export class NodePools {
  readonly #options: NodePoolsOptions;
  readonly #pools = new Map<string, Pool>();
  readonly #retired = new Set<string>();
  /** Configured with another switch than the one that pods have ports in; by name, as they are configured. */
  readonly #held = new Map<string, PoolConfig>();
  /** With what each was opened; compared anew each time, for a path may lead elsewhere by then. */
  readonly #switches = new Map<Dataplane, PoolConfig["dataplane"]>();
  readonly #unsubscribe: () => void;
  #closing: Promise<void> = Promise.resolve();

  constructor(options: NodePoolsOptions) {
    this.#options = options;
    this.#open(options.pools);
    this.replace(options.pools);
    this.#unsubscribe = options.uses.subscribe(() => this.#dropUnused());
  }

  /** By name; always what it is at the moment. */
  get byName(): ReadonlyMap<string, Pool> {
    return this.#pools;
  }

  /**
   * Takes over what is configured now. For as long as a device of it is in use, a pool that is gone stays, and one that
   * got another switch (put back after it was gone) stays with its old one.
   */
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
      this.#take(config);
    }
    for (const name of this.#held.keys()) if (!configured.has(name)) this.#held.delete(name);
    this.#dropUnused();
  }

  async close(): Promise<void> {
    this.#unsubscribe();
    this.#pools.clear();
    this.#closeUnused();
    await this.#closing;
  }

  /**
   * Opens the switches in which pods have ports by the records. Where such a pool is configured with another one, it is
   * a change like any other, which waits for its last device. A switch of which there is no socket any more is left to
   * the configuration: it may have moved, and one that is gone for good would keep its pods' records for ever.
   */
  #open(configured: readonly PoolConfig[]): void {
    const { uses, logger } = this.#options;
    for (const pool of uses.pools()) {
      const record = uses.newestWithSwitch(pool);
      const was = record && recordedPool(record);
      const is = configured.find(({ name }) => name === pool);
      if (was !== undefined && this.#isToKeep(was, is)) {
        this.#pools.set(pool, { config: was, dataplane: this.#switch(was.dataplane) });
      } else if (is === undefined) {
        const reason = was === undefined ? "no record tells its switch" : `no ${socketOf(was.dataplane)}`;
        logger.error(
          { pool, reason },
          "pods hold devices of a pool that is not configured; put it back until they are gone",
        );
      }
    }
  }

  #isToKeep(was: PoolConfig, is: PoolConfig | undefined): boolean {
    const { isThere = existsSync, logger } = this.#options;
    const before = socketOf(was.dataplane);
    if (is === undefined) return isThere(before);
    const now = socketOf(is.dataplane);
    if (now === before) return false;
    // While neither is there, nobody can tell whether it moved.
    if (isThere(before) || !isThere(now)) return true;
    const reason = `no ${before} any more`;
    logger.warn({ pool: is.name, reason }, "the pool's pods get their ports in its configured switch");
    return false;
  }

  #take(config: PoolConfig): void {
    const { uses, logger } = this.#options;
    const { name } = config;
    const old = this.#pools.get(name);
    if (old === undefined || !uses.has(name) || isSameSwitch(old.config.dataplane, config.dataplane)) {
      if (this.#held.delete(name)) logger.info({ pool: name }, "the pool is at its configured switch");
      this.#pools.set(name, { config, dataplane: this.#switch(config.dataplane) });
      return;
    }
    // The bridge and its sockets too: what is configured is of the other switch.
    const { switchSockets: _, ...others } = config;
    const { dataplane, switchSockets } = old.config;
    const ofOld = { dataplane, ...(switchSockets === undefined ? {} : { switchSockets }) };
    this.#pools.set(name, { config: { ...others, ...ofOld }, dataplane: old.dataplane });
    if (isDeepStrictEqual(this.#held.get(name)?.dataplane, config.dataplane)) {
      this.#held.set(name, config);
      return;
    }
    this.#held.set(name, config);
    logger.warn(
      {
        pool: name,
        keys: [`pools.${name}.dataplane`],
        reason: "pods have ports in the old switch",
      },
      "the pool's other switch waits until its last device is freed; the old one stays",
    );
  }

  #switch(config: PoolConfig["dataplane"]): Dataplane {
    const [open] = [...this.#switches].find(([, where]) => isSameSwitch(where, config)) ?? [];
    const dataplane = open ?? this.#options.open(config);
    if (open === undefined) this.#switches.set(dataplane, config);
    return dataplane;
  }

  #dropUnused(): void {
    if (this.#retired.size === 0 && this.#held.size === 0) return;
    for (const name of this.#retired) {
      if (this.#options.uses.has(name)) continue;
      this.#retired.delete(name);
      this.#pools.delete(name);
    }
    for (const [name, config] of this.#held) if (!this.#options.uses.has(name)) this.#take(config);
    this.#closeUnused();
  }

  #closeUnused(): void {
    const used = new Set([...this.#pools.values()].map(({ dataplane }) => dataplane));
    for (const dataplane of this.#switches.keys()) {
      if (used.has(dataplane)) continue;
      this.#switches.delete(dataplane);
      // One that does not close must not keep the others.
      this.#closing = this.#closing
        .then(() => dataplane.close())
        .catch((error: unknown) => {
          this.#options.logger.warn({ err: error }, "closing the connection to a switch failed");
        });
    }
  }
}
