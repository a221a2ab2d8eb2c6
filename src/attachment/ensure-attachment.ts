import { ensureSocketDirectories } from "../allocation/socket-directories.ts";
import type { PortOwner, PortRequest, PortState } from "../dataplane/port.ts";
import { Failure } from "../failure/failure.ts";
import type { Pool } from "../pools/pools.ts";
import type { AllocationRecord } from "../records/allocation-record.ts";
import type { PortRecord } from "../records/port-record.ts";
import type { NodeContext } from "./node-context.ts";
import {
  hasSocket,
  isUnpublished,
  publishSocket,
  removeStaleSocket,
  type SocketPlace,
} from "./publish-socket.ts";

/** The port that a record asks for. */
export function portRequest(context: NodeContext, record: PortRecord): PortRequest {
  return {
    name: record.portName,
    bridge: record.bridge,
    socketPath: record.switchSocketPath,
    ...(record.mtu === undefined ? {} : { mtu: record.mtu }),
    settings: record.settings,
    owner: portOwner(context.config.node, record),
  };
}

/** Whose port a record's is. */
export function portOwner(node: string, record: PortRecord): PortOwner {
  return {
    node,
    podNamespace: record.podNamespace,
    podName: record.podName,
    podUid: record.podUid,
    containerId: record.containerId,
    interfaceName: record.interfaceName,
    network: record.network,
    mac: record.mac,
    allocationId: record.allocationId,
  };
}

/** Makes or repairs what an attachment consists of: the interface's directory and the port. */
export async function ensureAttachment(
  context: NodeContext,
  record: PortRecord,
  allocation: AllocationRecord,
  signal: AbortSignal,
): Promise<PortState> {
  await ensureSocketDirectories({
    root: context.config.root,
    allocationId: allocation.id,
    names: [record.interfaceName],
    ownership: allocation.ownership,
  });
  const pool = context.pools.ofAllocation(allocation);
  if (pool === undefined) {
    throw new Failure({
      code: "invalid-config",
      what: `pool ${record.pool} of a running pod's interface is no longer configured, and its switch is not there`,
      where: `pod ${record.podNamespace}/${record.podName}, interface ${record.interfaceName}`,
      fix: "put the pool back until its pods are gone",
    });
  }
  const request = portRequest(context, record);
  return record.settings.socketServer === "switch"
    ? ensureServedPort(context, pool, request, allocation, signal)
    : pool.dataplane.ensurePort(request, signal);
}

/**
 * Makes or repairs a port whose socket the switch creates, and puts the socket where the pod expects it. Where the pod has
 * removed its socket, the port is recreated.
 * @throws Failure of {@link Dataplane.ensurePort}; invalid-config, directory-unsafe, port-failed
 */
export async function ensureServedPort(
  { config: { root } }: NodeContext,
  pool: Pool,
  request: PortRequest,
  { id: allocationId, ownership }: AllocationRecord,
  signal: AbortSignal,
): Promise<PortState> {
  const { config, dataplane } = pool;
  const place: SocketPlace = { root, allocationId, interfaceName: request.owner.interfaceName };
  if (dataplane.capabilities.servesInPlace) return ensureInPlace(pool, request, place, signal);
  const directory = config.switchSockets;
  if (directory === undefined) {
    throw new Failure({
      code: "invalid-config",
      what: "the switch is to create the socket, but the directory of its sockets is not configured",
      where: `pool ${config.name}, key switchSockets`,
      fix: "set it to the switch's vhost-sock-dir as the daemon sees it, or let the guest's side create the sockets (socketServer)",
    });
  }
  const own = { directory, file: request.name };
  /** Undefined where the pod has no socket. */
  const attempt = async (): Promise<PortState | undefined> => {
    const state = await dataplane.ensurePort(request, signal);
    const { socketFile: file } = state;
    if (file === undefined || (await publishSocket({ ...place, directory, file, ownership }))) return state;
    // Recreating the port would disconnect the current peer, which does not need the socket any more.
    return state.connected ? state : undefined;
  };
  if (isUnpublished(own) && !(await isOpen(pool, request, signal))) await removeStaleSocket(own);
  const first = await attempt().catch((error: unknown) => {
    if (error instanceof Failure && error.code === "port-failed") return undefined;
    throw error;
  });
  if (first !== undefined) return first;
  await dataplane.removePort(request.name, signal);
  await removeStaleSocket(own);
  const second = await attempt();
  if (second !== undefined) return second;
  await dataplane.removePort(request.name, signal);
  throw new Failure({
    code: "port-failed",
    what: `the switch made port ${request.name}, but its socket does not exist`,
    where: `switchSockets: ${directory}`,
    fix: "check that this is where ovs-vswitchd creates its sockets: Open_vSwitch.other_config:vhost-sock-dir",
  });
}

/** The switch creates the socket where the pod expects it, and does not say when it is gone. */
async function ensureInPlace(
  { dataplane }: Pool,
  request: PortRequest,
  place: SocketPlace,
  signal: AbortSignal,
): Promise<PortState> {
  const state = await dataplane.ensurePort(request, signal);
  // Recreating the port would disconnect the current peer.
  if (state.connected || hasSocket(place)) return state;
  await dataplane.removePort(request.name, signal);
  const recreated = await dataplane.ensurePort(request, signal);
  return { ...recreated, changes: [`the socket of port ${request.name} was gone`] };
}

/**
 * Whether the switch has the port open. Otherwise a socket of its name is a killed switch's and must be removed before
 * the switch tries again: bind(2) fails then, and DPDK's vhost library (22.11) closes a descriptor twice, which may be
 * the switch's OpenFlow listener by that time. ovs-vswitchd was seen to hang in accept(2).
 */
async function isOpen({ dataplane }: Pool, request: PortRequest, signal: AbortSignal): Promise<boolean> {
  const ports = await dataplane.listPorts(signal);
  return ports.some(({ name, error }) => name === request.name && error === undefined);
}
