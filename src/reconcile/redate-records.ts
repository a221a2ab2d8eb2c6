import { type PortRecord, portRecordName } from "../records/port-record.ts";
import type { Records } from "../records/records.ts";

/**
 * Records that were made while the clock was ahead would stay too young to be reclaimed for as long as it was. From now
 * on the newest of them is of this moment, and the others are as much older as they were. In memory alone: a daemon
 * that starts again does it again.
 */
export function redateRecords({ allocations, ports }: Records, nowMs: number): void {
  const made = [...allocations.list(), ...ports.list()].map(({ createdAt }) => createdAt);
  const aheadMs = made.reduce((newest, createdAt) => Math.max(newest, createdAt), nowMs) - nowMs;
  if (aheadMs === 0) return;
  const redated = <Record extends { readonly createdAt: number }>(record: Record): Record =>
    record.createdAt > nowMs ? { ...record, createdAt: record.createdAt - aheadMs } : record;
  for (const { id } of allocations.list()) allocations.updateInMemory(id, redated);
  for (const port of ports.list()) ports.updateInMemory(nameOf(port), redated);
}

function nameOf({ containerId, interfaceName }: PortRecord): string {
  return portRecordName(containerId, interfaceName);
}
