// Allocate, from kubelet's request to its answer.

import type { AllocationPlaces } from "../allocation/allocation.ts";
import { allocationDirectory, podDirectory } from "../allocation/layout.ts";
import { makeAllocation, planAllocation } from "../allocation/make-allocation.ts";
import type { PoolConfig } from "../config/schema.ts";
import { Failure } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";
import { type AllocationRecord, allocationFields, pluginDevicesOf } from "../records/allocation-record.ts";
import type { RecordStore } from "../records/record-store.ts";
import { takeSequences } from "../records/records.ts";
import type { Clock } from "../sync/clock.ts";
import type { DeviceSource } from "./pool-devices.ts";

/** What one container gets for all its devices of one resource, as kubelet's API has it. */
export interface AllocationAnswer {
  /** Environment; the pod's own entries of the same name win. */
  readonly envs: Readonly<Record<string, string>>;
  /** Each `host_path` must exist when the answer is given: kubelet does not create it. */
  readonly mounts: readonly {
    readonly container_path: string;
    readonly host_path: string;
    readonly read_only: boolean;
  }[];
}

/**
 * Answers Allocate for one container, with all its devices of the resource at once.
 * @param signal fires when the caller no longer waits for the answer; what was made must then be removed
 */
export type Allocate = (deviceIds: readonly string[], signal: AbortSignal) => Promise<AllocationAnswer>;

/** Allocate as it comes from kubelet: one request for each container. */
export interface AllocateRequest {
  readonly container_requests: readonly { readonly devices_ids: readonly string[] }[];
}

/** What an Allocate call is answered with. */
export interface AllocateHandler {
  readonly resource: string;
  readonly devices: Pick<DeviceSource, "lastUse">;
  readonly allocate: Allocate;
}

/**
 * Answers one Allocate call.
 * @throws Failure `invalid-request`, before anything is allocated, for devices that were never listed
 */
export async function answerAllocate(
  { container_requests }: AllocateRequest,
  handler: AllocateHandler,
  signal: AbortSignal,
): Promise<{ readonly container_responses: readonly AllocationAnswer[] }> {
  for (const { devices_ids } of container_requests) checkDevices(devices_ids, handler);
  const container_responses: AllocationAnswer[] = [];
  for (const { devices_ids } of container_requests) {
    container_responses.push(await handler.allocate(devices_ids, signal));
  }
  return { container_responses };
}

function checkDevices(ids: readonly string[], { devices, resource }: AllocateHandler): void {
  const unknown = ids.filter((id) => devices.lastUse(id) === undefined);
  const quoted = (list: readonly string[]) => list.map((id) => JSON.stringify(id)).join(", ");
  const problem =
    ids.length === 0
      ? "no device at all"
      : unknown.length > 0
        ? `devices that are not on this node: ${quoted(unknown)}`
        : new Set(ids).size < ids.length
          ? `one device twice: ${quoted(ids)}`
          : undefined;
  if (problem === undefined) return;
  throw new Failure({
    code: "invalid-request",
    what: `Allocate names ${problem}`,
    where: `resource ${resource}`,
    fix: "delete the pod; kubelet has the current list of devices by now",
  });
}

/** What an allocator of one pool works with. */
export interface AllocatorOptions {
  readonly pool: PoolConfig;
  readonly places: AllocationPlaces;
  readonly allocations: RecordStore<AllocationRecord>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Makes the {@link Allocate} of a pool: a fresh directory for all devices of the container, its record, device-info
 * of each device, and the answer that mounts it. Always fresh, also for devices that were given out before, because
 * the pod that had them may still run; what an older allocation leaves is reclaimed later. An allocation whose caller
 * is gone is removed again: it would count as newer than that of the pod that gets its devices instead.
 */
export function createAllocator(
  options: AllocatorOptions,
): (devices: readonly string[], signal?: AbortSignal) => Promise<AllocationAnswer> {
  const { pool, places, allocations, clock, logger } = options;
  return async (devices, signal) => {
    const { resource } = pool;
    const holder = { kind: "device-plugin", resource, devices: [...devices].sort() } as const;
    const record = planAllocation(pool, holder, {
      createdAt: clock.now(),
      sequence: takeSequences(allocations),
    });
    await makeAllocation(record, { places, allocations }, signal);
    logger.info(allocationFields(record), "allocated");
    return answerFor(record, places);
  };
}

function answerFor(record: AllocationRecord, places: AllocationPlaces): AllocationAnswer {
  const container_path = podDirectory(places.podRoot, record.pool);
  const prefix = `VHOSTUSER_${record.pool.toUpperCase().replaceAll("-", "_")}`;
  return {
    envs: {
      [`${prefix}_DIRECTORY`]: container_path,
      [`${prefix}_DEVICES`]: pluginDevicesOf(record).join(","),
    },
    mounts: [{ container_path, host_path: allocationDirectory(places.root, record.id), read_only: false }],
  };
}
