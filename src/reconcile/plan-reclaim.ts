import type { AllocationRecord } from "../records/allocation-record.ts";

/** What reclaiming is decided from. */
export interface ReclaimInput {
  readonly allocations: readonly AllocationRecord[];
  /** Devices that PodResources lists. An unreadable list must never get here. */
  readonly held: ReadonlySet<string>;
  /** Allocations that were abandoned at the look before this one. */
  readonly before: ReadonlySet<string>;
  readonly nowMs: number;
  readonly graceMs: number;
}

/** What to remove now, and what to remember until the next look. */
export interface ReclaimPlan {
  readonly remove: readonly AllocationRecord[];
  readonly abandoned: ReadonlySet<string>;
}

/**
 * Decides which allocations no pod holds any more. The device plugin API has no deallocate call, and Allocate
 * comes before the pod shows up in PodResources, so an allocation must be old enough and be abandoned at two
 * looks in a row.
 */
export function planReclaim(input: ReclaimInput): ReclaimPlan {
  const abandoned = input.allocations.filter(
    (allocation) =>
      input.nowMs - allocation.createdAt >= input.graceMs &&
      allocation.devices.every(
        (device) => !input.held.has(device) || isAnotherPods(device, allocation, input),
      ),
  );
  return {
    remove: abandoned.filter(({ id }) => input.before.has(id)),
    abandoned: new Set(abandoned.map(({ id }) => id)),
  };
}

/**
 * Whether a held device is held through a newer allocation of another pod. Kubelet gives an id out again once
 * its pod is gone, but also to a pod's main container after its init container; both of those are allocated in
 * one admission, so only a newer allocation that came much later tells that the pod is another one.
 */
function isAnotherPods(device: string, allocation: AllocationRecord, input: ReclaimInput): boolean {
  return input.allocations.some(
    (other) =>
      other.sequence > allocation.sequence &&
      other.devices.includes(device) &&
      other.createdAt - allocation.createdAt >= input.graceMs,
  );
}
