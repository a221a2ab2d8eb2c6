// Which switch an allocation's ports are in: that of its pool, or the one that its record names.
import { existsSync } from "node:fs";
import { dataplaneSchema } from "../config/pool-schema.ts";
import type { PoolConfig } from "../config/schema.ts";
import type { Dataplane } from "../dataplane/dataplane.ts";
import { isSameSwitch, socketOf } from "../dataplane/switch-kind.ts";
import type { Logger } from "../logging/logger.ts";
import { type AllocationRecord, pluginDevicesOf, resourceOf } from "../records/allocation-record.ts";
import type { RecordStore } from "../records/record-store.ts";

/** A pool with its switch. */
export interface Pool {
  readonly config: PoolConfig;
  readonly dataplane: Dataplane;
}

/** What the node's pools are opened with. */
export interface PoolsOptions {
  readonly pools: readonly PoolConfig[];
  readonly allocations: Pick<RecordStore<AllocationRecord>, "list" | "get" | "subscribe">;
  readonly open: (config: PoolConfig["dataplane"]) => Dataplane;
  readonly logger: Logger;
}

/**
 * The node's pools: those that are configured and, until their last allocation is gone, those that allocations
 * recorded and that are no longer configured, or with another switch. One connection to each switch, however many
 * pools belong to bridges of it.
 */
export class Pools {
  /** Configured pools by name. */
  readonly configured: ReadonlyMap<string, Pool>;
  readonly #options: PoolsOptions;
  /** Pools that only records name, by {@link recordKey}. New allocations are always of configured pools. */
  readonly #recorded = new Map<string, Pool>();
  readonly #switches = new Map<Dataplane, PoolConfig["dataplane"]>();
  readonly #unsubscribe: () => void;
  #closing: Promise<void> = Promise.resolve();

  constructor(options: PoolsOptions) {
    this.#options = options;
    const { pools, allocations } = options;
    this.configured = new Map(
      pools.map((config) => [config.name, { config, dataplane: this.#switch(config.dataplane) }]),
    );
    const byRecord = Map.groupBy(allocations.list(), recordKey);
    for (const [key, [allocation]] of byRecord) {
      const recorded = allocation && this.#recordedPool(allocation);
      if (recorded === undefined) continue;
      this.#recorded.set(key, { config: recorded, dataplane: this.#switch(recorded.dataplane) });
    }
    this.#unsubscribe = allocations.subscribe((_before, after) => {
      if (after === undefined) this.#dropUnused();
    });
  }

  /** Configured pools, then those that only allocations name. */
  all(): readonly Pool[] {
    return [...this.configured.values(), ...this.#recorded.values()];
  }

  /** Each switch once. */
  dataplanes(): readonly Dataplane[] {
    return [...this.#switches.keys()];
  }

  /** The pool whose switch has an allocation's ports; undefined where neither configuration nor record names one. */
  ofAllocation(allocation: AllocationRecord): Pool | undefined {
    return this.#recorded.get(recordKey(allocation)) ?? this.configured.get(allocation.pool);
  }

  /** {@link Pools.ofAllocation} for a port; its pool by name where the allocation's record is gone. */
  ofPort(port: { readonly allocationId: string; readonly pool: string }): Pool | undefined {
    const allocation = this.#options.allocations.get(port.allocationId);
    return allocation === undefined ? this.configured.get(port.pool) : this.ofAllocation(allocation);
  }

  async close(): Promise<void> {
    this.#unsubscribe();
    for (const dataplane of this.#switches.keys()) this.#close(dataplane);
    await this.#closing;
  }

  /**
   * The pool as an allocation recorded it, where its ports need it: it is not configured, or with another switch. A
   * recorded socket that is gone leaves the allocation to the configuration: the switch has moved to another path, or
   * is gone for good and would keep its pods' records for ever. While the configured socket is missing too, nothing
   * shows that it moved.
   */
  #recordedPool(allocation: AllocationRecord): PoolConfig | undefined {
    const { logger } = this.#options;
    const was = parseRecordedPool(allocation);
    const is = this.configured.get(allocation.pool)?.config;
    const socket = was && socketOf(was.dataplane);
    const fields = { pool: allocation.pool, reason: socket ?? "no switch recorded" };
    if (is === undefined) {
      if (was !== undefined && socket !== undefined && existsSync(socket)) {
        logger.info(fields, "pool is no longer configured, serving its pods until the last is gone");
        return was;
      }
      logger.error(
        fields,
        "pods hold devices of a pool that is not configured and whose switch is not there",
      );
      return undefined;
    }
    const configuredSocket = socketOf(is.dataplane);
    if (was === undefined || socket === undefined || socket === configuredSocket) return undefined;
    if (existsSync(socket) || !existsSync(configuredSocket)) {
      logger.warn(fields, "pool has another switch now, serving its older pods in the recorded one");
      return was;
    }
    logger.warn(fields, "recorded switch is gone, serving the pool's pods in the configured one");
    return undefined;
  }

  #switch(config: PoolConfig["dataplane"]): Dataplane {
    for (const [dataplane, opened] of this.#switches) if (isSameSwitch(opened, config)) return dataplane;
    const dataplane = this.#options.open(config);
    this.#switches.set(dataplane, config);
    return dataplane;
  }

  #dropUnused(): void {
    if (this.#recorded.size === 0) return;
    const used = new Set(this.#options.allocations.list().map(recordKey));
    for (const [key, { config }] of this.#recorded) {
      if (used.has(key)) continue;
      this.#recorded.delete(key);
      this.#options.logger.info({ pool: config.name }, "last pod in a switch that is not configured is gone");
    }
    const needed = new Set(this.all().map(({ dataplane }) => dataplane));
    for (const dataplane of this.#switches.keys()) if (!needed.has(dataplane)) this.#close(dataplane);
  }

  #close(dataplane: Dataplane): void {
    this.#switches.delete(dataplane);
    // A switch that does not close must not keep the others open.
    this.#closing = this.#closing
      .then(() => dataplane.close())
      .catch((error: unknown) => {
        this.#options.logger.warn({ err: error }, "closing the connection to a switch failed");
      });
  }
}

/** Distinguishes what allocations recorded about their pools. */
function recordKey({ pool, dataplane, switchSockets }: AllocationRecord): string {
  return JSON.stringify([pool, dataplane, switchSockets]);
}

/** @returns undefined where the record names no switch, or one of a kind that this release does not know */
function parseRecordedPool(record: AllocationRecord): PoolConfig | undefined {
  const { pool: name, ownership, switchSockets, socketServer } = record;
  const dataplane = dataplaneSchema.safeParse(record.dataplane);
  if (!dataplane.success) return undefined;
  return {
    ...{
      name,
      resource: resourceOf(record),
      capacity: pluginDevicesOf(record).length,
      numaNode: "none",
      directory: ownership,
    },
    dataplane: dataplane.data,
    ...(switchSockets === undefined ? {} : { switchSockets }),
    ...(socketServer === undefined ? {} : { socketServer }),
  };
}
