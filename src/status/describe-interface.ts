import type { Dataplane } from "../dataplane/dataplane.ts";
import type { PortInspection } from "../dataplane/port.ts";
import { describeThrown } from "../failure/failure.ts";
import { devicesOfPod, type PodDevices } from "../kubelet/pod-resources.ts";
import { hashedPodInterfaceName } from "../names/interface-name.ts";
import type { Pool } from "../pools/pools.ts";
import { type AllocationRecord, resourceOf } from "../records/allocation-record.ts";
import { claimInterface } from "../records/claim-holder.ts";
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

/** The directory of all allocations, and what is wrong with its file system. */
export interface InspectedRoot {
  readonly root: string;
  readonly rootProblem: string | undefined;
}

/** An attachment as records, root and switch have it. */
export function describeInterface(
  root: InspectedRoot,
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
    vmNetwork: vmNetworkOf(record),
    addresses: record.lease?.given?.ips.map(({ address }) => address),
    ...ofAllocation(root, record.interfaceName, allocation),
    ...ofSwitch(portName, reading),
  };
}

/** Names of networks in VMs' specs that are usual, beside that of the CNI network. */
const USUAL_NAMES = Array.from({ length: 10 }, (_, index) => `net${index}`);

/** A node knows the hash of the name only, so a name counts where it has this hash. */
function vmNetworkOf({ interfaceName, network }: PortRecord): string | undefined {
  return [network, ...USUAL_NAMES].find((name) => hashedPodInterfaceName(name) === interfaceName);
}

/** A device that a pod holds, in an allocation of which no interface is attached. */
export interface UnattachedDevice {
  readonly device: string;
  readonly allocation: AllocationRecord;
  readonly pod: InterfaceStatus["pod"];
}

/** A device of a pod for which there is no attachment: CNI ADD, or the preparation of its claim, has not come or failed. */
export function describeDevice(
  root: InspectedRoot,
  { device, allocation, pod }: UnattachedDevice,
): InterfaceStatus {
  return {
    ...{ pod, state: "allocated", device, pool: allocation.pool, createdAt: allocation.createdAt },
    socketServer: allocation.socketServer ?? "guest",
    ...ofAllocation(root, device, allocation),
  };
}

/**
 * Pure: devices that kubelet lists for pods, or that claims of these pods hold, in allocations of which no interface is
 * attached. Further devices of an
 * allocation that has an interface are left out: a VM may ask for its resource itself, and KubeVirt asks for it once more.
 */
export function unattachedDevices(
  { ports, allocations }: Records,
  pods: readonly PodDevices[],
): readonly UnattachedDevice[] {
  const newest = newestAllocations(allocations.list());
  const withInterface = new Set(ports.list().map(({ allocationId }) => allocationId));
  const ofResources = pods.flatMap((holder) =>
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
  const listed = new Set(pods.map(({ podNamespace, podName }) => `${podNamespace}/${podName}`));
  const ofClaims = allocations.list().flatMap((allocation) => {
    const { id, holder } = allocation;
    if (holder.kind !== "claim" || holder.released || withInterface.has(id)) return [];
    const { pod } = holder;
    return listed.has(`${pod.namespace}/${pod.name}`)
      ? [{ device: claimInterface(holder), allocation, pod }]
      : [];
  });
  return [...ofResources, ...ofClaims];
}

/** The claim that holds an allocation; undefined where a container's resource does. */
export function claimOf({ holder }: AllocationRecord): InterfaceStatus["claim"] {
  if (holder.kind !== "claim") return undefined;
  const { namespace, name, uid, request } = holder;
  return { namespace, name, uid, request };
}

function ofAllocation(
  { root, rootProblem }: InspectedRoot,
  name: string,
  allocation: AllocationRecord | undefined,
): Pick<InterfaceStatus, "allocation" | "resource" | "claim" | "ownership" | "places" | "rootProblem"> {
  if (allocation === undefined) return {};
  const { id, ownership } = allocation;
  return {
    allocation: id,
    resource: resourceOf(allocation),
    claim: claimOf(allocation),
    ownership,
    places: inspectPlaces(root, id, name),
    rootProblem,
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
