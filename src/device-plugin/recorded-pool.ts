import { dataplaneSchema } from "../config/pool-schema.ts";
import type { PoolConfig } from "../config/schema.ts";
import type { AllocationRecord } from "../records/allocation-record.ts";

/**
 * A pool as it was when Allocate was answered, as far as its pods' ports need it: of the capacity, which is no more
 * than what is in use, nobody is told.
 * @returns undefined where the record does not tell the switch, or tells one that this release does not know
 */
export function recordedPool(record: AllocationRecord): PoolConfig | undefined {
  const { pool: name, resource, devices, ownership, switchSockets, socketServer } = record;
  const dataplane = dataplaneSchema.safeParse(record.dataplane);
  if (!dataplane.success) return undefined;
  return {
    ...{ name, resource, capacity: devices.length, numaNode: "none", directory: ownership },
    dataplane: dataplane.data,
    ...(switchSockets === undefined ? {} : { switchSockets }),
    ...(socketServer === undefined ? {} : { socketServer }),
  };
}
