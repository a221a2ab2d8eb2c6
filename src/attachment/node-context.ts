import type { DaemonConfig } from "../config/schema.ts";
import type { Pools } from "../pools/pools.ts";
import type { Records } from "../records/records.ts";

/** What every job on a node works with. */
export interface NodeContext {
  readonly config: DaemonConfig;
  readonly records: Records;
  readonly pools: Pools;
}
