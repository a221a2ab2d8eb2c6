import type { PodDevices } from "../kubelet/pod-resources.ts";
import { type AllocationRecord, resourceOf } from "../records/allocation-record.ts";
import type { PortRecord } from "../records/port-record.ts";
import { newestAllocations, type Records } from "../records/records.ts";
import { inspectPlaces } from "./inspect-places.ts";
import { portOf, type SwitchReading } from "./read-switches.ts";
import type { InterfaceStatus } from "./shape.ts";

/** An attachment as records, root and switch have it. */
export function describeInterface(
  root: string,
  record: PortRecord,
  allocation: AllocationRecord | undefined,
  reading: SwitchReading | undefined,
): InterfaceStatus {
  const { vlan, socketServer = "guest" } = record.settings;
  return {
    pod: { namespace: record.podNamespace, name: record.podName, uid: record.podUid },
    state: record.state,
    name: record.interfaceName,
    network: record.network,
    containerId: record.containerId,
    mac: record.mac,
    ...(record.mtu === undefined ? {} : { mtu: record.mtu }),
    ...(vlan === undefined ? {} : { vlan: vlanOf(vlan) }),
    socketServer,
    device: record.device,
    pool: record.pool,
    podSocket: record.podSocketPath,
    bridge: record.bridge,
    portName: record.portName,
    createdAt: record.createdAt,
    ...ofAllocation(root, record.interfaceName, allocation),
    ...portOf(record.portName, reading),
  };
}

/** A device of a pod for which there is no attachment: CNI ADD has not come, or failed. */
export function describeDevice(
  root: string,
  device: string,
  allocation: AllocationRecord,
  pod: InterfaceStatus["pod"],
): InterfaceStatus {
  return {
    pod,
    state: "allocated",
    socketServer: allocation.socketServer ?? "guest",
    device,
    pool: allocation.pool,
    createdAt: allocation.createdAt,
    ...ofAllocation(root, device, allocation),
  };
}

function ofAllocation(
  root: string,
  name: string,
  allocation: AllocationRecord | undefined,
): Pick<InterfaceStatus, "allocation" | "resource" | "ownership" | "places"> {
  if (allocation === undefined) return {};
  const { id, ownership } = allocation;
  return {
    allocation: id,
    resource: resourceOf(allocation),
    ownership,
    places: inspectPlaces(root, id, name),
  };
}

function vlanOf({
  mode,
  tag,
  trunks,
}: NonNullable<PortRecord["settings"]["vlan"]>): NonNullable<InterfaceStatus["vlan"]> {
  return { mode, ...(tag === undefined ? {} : { tag }), trunks };
}

/** A device that a pod holds, and its allocation. */
export interface UnattachedDevice {
  readonly device: string;
  readonly allocation: AllocationRecord;
  readonly pod: InterfaceStatus["pod"];
}

/**
 * Pure: devices that kubelet says pods hold, in allocations of which no interface is attached: CNI ADD was not called yet,
 * or failed. Further devices of an allocation that has an interface are left out: a VM may ask for its resource itself,
 * and KubeVirt asks for it once more.
 */
export function unattachedDevices(
  { ports, allocations }: Records,
  pods: readonly PodDevices[],
): readonly UnattachedDevice[] {
  const newest = newestAllocations(allocations.list());
  const withInterface = new Set(ports.list().map(({ allocationId }) => allocationId));
  return pods.flatMap(({ podNamespace: namespace, podName: name, containers }) =>
    containers
      .flatMap(({ devices }) => devices.flatMap(({ ids }) => ids))
      .flatMap((device) => {
        const allocation = newest.get(device);
        if (allocation === undefined || withInterface.has(allocation.id)) return [];
        return [{ device, allocation, pod: { namespace, name, uid: "" } }];
      }),
  );
}
