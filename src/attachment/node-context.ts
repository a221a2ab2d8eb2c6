import type { DaemonConfig, PoolConfig } from "../config/schema.ts";
import type { Dataplane } from "../dataplane/dataplane.ts";
import type { Records } from "../records/records.ts";

/** A pool with the switch that it stands for. */
export interface Pool {
  readonly config: PoolConfig;
  readonly dataplane: Dataplane;
}

/** What every job on a node works with. */
export interface NodeContext {
  readonly config: DaemonConfig;
  readonly records: Records;
  /** By pool name. */
  readonly pools: ReadonlyMap<string, Pool>;
}

/** Each switch once, though several pools may stand for bridges of the same one. */
export function distinctDataplanes(context: NodeContext): readonly Dataplane[] {
  return [...new Set([...context.pools.values()].map(({ dataplane }) => dataplane))];
}
