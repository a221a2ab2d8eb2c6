import { isSandboxOfClaim } from "../ipam/release-addresses.ts";
import { type AllocationRecord, pluginDevicesOf } from "../records/allocation-record.ts";
import type { PortRecord } from "../records/port-record.ts";
import { holdKey, type KubeletView } from "./kubelet-view.ts";

/** What reclaiming is decided from. */
export interface ReclaimInput {
  readonly allocations: readonly AllocationRecord[];
  readonly ports: readonly PortRecord[];
  readonly kubelet: KubeletView;
  /** Allocations to whose sockets the switch has a guest connected. */
  readonly connected: ReadonlySet<string>;
  /** What was abandoned at the check before this one. */
  readonly before: ReadonlySet<string>;
  readonly nowMs: number;
  readonly graceMs: number;
}

/** What to remove now, and what to remember until the next check. */
export interface ReclaimPlan {
  readonly allocations: readonly AllocationRecord[];
  /** Attachments whose pod is gone, though another pod may hold the device by now. */
  readonly ports: readonly PortRecord[];
  readonly abandoned: ReadonlySet<string>;
}

/**
 * Decides what no pod holds any more. The device plugin API has no deallocate call, and Allocate comes before the
 * pod shows up in PodResources, so everything must be old enough and be abandoned at two checks in a row. What has
 * a guest connected is held, whatever kubelet says.
 */
export function planReclaim(input: ReclaimInput): ReclaimPlan {
  const isOld = ({ createdAt }: { createdAt: number }) => input.nowMs - createdAt >= input.graceMs;
  const newer = newerAllocations(input.allocations);
  const released = input.allocations.filter(isReleased);
  const allocations = input.allocations.filter(
    (allocation) => isOld(allocation) && !isReleased(allocation) && !isHeld(allocation, newer, input),
  );
  const ports = input.ports.filter((port) => isOld(port) && isOfGonePod(port, input));
  const portKey = ({ portName }: PortRecord) => `port ${portName}`;
  return {
    allocations: [...released, ...allocations.filter(({ id }) => input.before.has(id))],
    ports: ports.filter((port) => input.before.has(portKey(port))),
    abandoned: new Set([...allocations.map(({ id }) => id), ...ports.map(portKey)]),
  };
}

function isHeld(allocation: AllocationRecord, newer: NewerAllocations, input: ReclaimInput): boolean {
  return (
    input.connected.has(allocation.id) ||
    isHolderAlive(allocation, newer, input) ||
    hasLivingInterface(allocation, input)
  );
}

/** Whether what the allocation was made for is still there; unknown means that it is. */
function isHolderAlive(allocation: AllocationRecord, newer: NewerAllocations, input: ReclaimInput): boolean {
  const { holder } = allocation;
  switch (holder.kind) {
    case "device-plugin":
      return holder.devices.some(
        (device) =>
          input.kubelet.held.has(holdKey(holder.resource, device)) &&
          !newer(device, allocation).some((other) => isAnotherPods(other, allocation, input)),
      );
    case "claim":
      // A claim that outlives its pod may be given to the next one without another Prepare.
      return (
        input.kubelet.pods.has(`${holder.pod.namespace}/${holder.pod.name}`) ||
        input.kubelet.claims.has(`${holder.namespace}/${holder.name}`)
      );
  }
}

function isReleased({ holder }: AllocationRecord): boolean {
  return holder.kind === "claim" && holder.released === true;
}

/** Allocations of a device that came after a given one. */
type NewerAllocations = (device: string, than: AllocationRecord) => readonly AllocationRecord[];

function newerAllocations(allocations: readonly AllocationRecord[]): NewerAllocations {
  const byDevice = new Map<string, AllocationRecord[]>();
  for (const allocation of allocations) {
    for (const device of pluginDevicesOf(allocation)) {
      byDevice.set(device, [...(byDevice.get(device) ?? []), allocation]);
    }
  }
  return (device, than) => (byDevice.get(device) ?? []).filter(({ sequence }) => sequence > than.sequence);
}

/**
 * Whether a newer allocation of the same device is of another pod, so that the older one's pod is gone. Kubelet gives an
 * id out again once its pod is gone, but also to a pod's main container after its init container. Where the pods are not
 * known, time decides: both of those are allocated in one admission.
 */
function isAnotherPods(newer: AllocationRecord, older: AllocationRecord, input: ReclaimInput): boolean {
  if (newer.createdAt - older.createdAt >= input.graceMs) return true;
  if (older.pod === undefined) return false;
  if (!input.kubelet.pods.has(`${older.pod.namespace}/${older.pod.name}`)) return true;
  // A new pod of the same name, as a StatefulSet makes it.
  const [one, other] = [older.pod.uid, newer.pod?.uid ?? ""];
  return one !== "" && other !== "" && one !== other;
}

/**
 * Whether an interface of a living pod is attached to it. PodResources does not list the devices of plain init
 * containers, but does list their pod.
 */
function hasLivingInterface(allocation: AllocationRecord, input: ReclaimInput): boolean {
  return input.ports.some(
    (port) =>
      port.allocationId === allocation.id &&
      port.state === "attached" &&
      input.kubelet.pods.has(podKey(port)) &&
      !hasNewerSandbox(port, input),
  );
}

/**
 * Whether another sandbox, of a new pod of the same name or of the same pod, has a newer interface. The port of a claim is no
 * sandbox's: it stays from one to the next.
 */
function hasNewerSandbox(port: PortRecord, input: ReclaimInput): boolean {
  return input.ports.some(
    (other) =>
      podKey(other) === podKey(port) &&
      other.containerId !== port.containerId &&
      !isSandboxOfClaim(other.containerId) &&
      other.createdAt > port.createdAt,
  );
}

const podKey = (port: PortRecord): string => `${port.podNamespace}/${port.podName}`;

/** Whether an attachment lost its DEL, judged by its pod. Without a pod's name only its allocation shows it. */
function isOfGonePod(port: PortRecord, input: ReclaimInput): boolean {
  return (
    port.state === "attached" &&
    port.podName !== "" &&
    !input.kubelet.pods.has(podKey(port)) &&
    !input.connected.has(port.allocationId)
  );
}
