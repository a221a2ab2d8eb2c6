import type { Dataplane } from "../dataplane/dataplane.ts";
import type { PortInspection } from "../dataplane/port.ts";
import { describeThrown } from "../failure/failure.ts";
import { devicesOfPod, type PodDevices } from "../kubelet/pod-resources.ts";
import type { Pool } from "../pools/pools.ts";
import { type AllocationRecord, resourceOf } from "../records/allocation-record.ts";
import type { PortRecord } from "../records/port-record.ts";
import { newestAllocations, type Records } from "../records/records.ts";
import { inspectPlaces } from "./inspect-places.ts";
import type { InterfaceStatus } from "./shape.ts";

// Interfaces of pods as records, root and switches have them, for the status of the node and for traces.

/** What one read of a switch gave. */
export interface SwitchReading {
  /** By name; undefined where it could not be read. */
  readonly ports: ReadonlyMap<string, PortInspection> | undefined;
  /** Why not. */
  readonly reason?: string;
  readonly version?: string | undefined;
}

/** Reads each switch once, however many pools use it; one that does not answer says why. */
export async function readSwitches(
  pools: Iterable<Pool>,
  signal: AbortSignal,
): Promise<ReadonlyMap<Dataplane, SwitchReading>> {
  const dataplanes = [...new Set([...pools].map(({ dataplane }) => dataplane))];
  const readings = dataplanes.map(async (one) => [one, await readSwitch(one, signal)] as const);
  return new Map(await Promise.all(readings));
}

async function readSwitch(dataplane: Dataplane, signal: AbortSignal): Promise<SwitchReading> {
  const [ports, version] = await Promise.allSettled([
    dataplane.inspectPorts(signal),
    dataplane.version(signal),
  ]);
  return {
    version: version.status === "fulfilled" ? version.value : undefined,
    ...(ports.status === "fulfilled"
      ? { ports: new Map(ports.value.map((port) => [port.name, port])) }
      : { ports: undefined, reason: describeThrown(ports.reason) }),
  };
}

/** An attachment as records, root and switch have it. */
export function describeInterface(
  root: string,
  record: PortRecord,
  allocation: AllocationRecord | undefined,
  reading: SwitchReading | undefined,
): InterfaceStatus {
  const { state, network, containerId, mac, mtu, device, pool, bridge, portName, createdAt } = record;
  const { vlan, socketServer = "guest" } = record.settings;
  return {
    pod: { namespace: record.podNamespace, name: record.podName, uid: record.podUid },
    name: record.interfaceName,
    podSocket: record.podSocketPath,
    ...{ state, network, containerId, mac, mtu, socketServer, device, pool, bridge, portName, createdAt },
    vlan: vlan && { mode: vlan.mode, tag: vlan.tag, trunks: vlan.trunks },
    ...ofAllocation(root, record.interfaceName, allocation),
    ...ofSwitch(portName, reading),
  };
}

/** A device that a pod holds, in an allocation of which no interface is attached. */
export interface UnattachedDevice {
  readonly device: string;
  readonly allocation: AllocationRecord;
  readonly pod: InterfaceStatus["pod"];
}

/** A device of a pod for which there is no attachment: CNI ADD has not come, or failed. */
export function describeDevice(root: string, { device, allocation, pod }: UnattachedDevice): InterfaceStatus {
  return {
    ...{ pod, state: "allocated", device, pool: allocation.pool, createdAt: allocation.createdAt },
    socketServer: allocation.socketServer ?? "guest",
    ...ofAllocation(root, device, allocation),
  };
}

/**
 * Pure: devices that kubelet lists for pods, in allocations of which no interface is attached. Further devices of an
 * allocation that has an interface are left out: a VM may ask for its resource itself, and KubeVirt asks for it once more.
 */
export function unattachedDevices(
  { ports, allocations }: Records,
  pods: readonly PodDevices[],
): readonly UnattachedDevice[] {
  const newest = newestAllocations(allocations.list());
  const withInterface = new Set(ports.list().map(({ allocationId }) => allocationId));
  return pods.flatMap((holder) =>
    devicesOfPod(holder)
      .flatMap(({ ids }) => ids)
      .flatMap((device) => {
        const allocation = newest.get(device);
        if (allocation === undefined || withInterface.has(allocation.id)) return [];
        return [
          { device, allocation, pod: { namespace: holder.podNamespace, name: holder.podName, uid: "" } },
        ];
      }),
  );
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

function ofSwitch(
  name: string,
  reading: SwitchReading | undefined,
): Pick<InterfaceStatus, "port" | "portUnknown"> {
  if (reading === undefined) return { portUnknown: "its pool does not exist any more" };
  if (reading.ports === undefined)
    return { portUnknown: reading.reason ?? "the switch's ports cannot be read" };
  const found = reading.ports.get(name);
  if (found === undefined) return {};
  const { owner: _, socketFile: __, ...port } = found;
  return { port: { ...port, drops: port.drops && { ...port.drops } } };
}
