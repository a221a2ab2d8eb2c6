import type { PortRequest, PortState } from "../dataplane/port.ts";
import { Failure } from "../failure/failure.ts";
import type { Pool } from "../pools/pools.ts";
import type { AllocationRecord } from "../records/allocation-record.ts";
import type { NodeContext } from "./node-context.ts";
import {
  hasSocket,
  isUnpublished,
  publishSocket,
  removeStaleSocket,
  type SocketPlace,
} from "./publish-socket.ts";

/**
 * Makes or mends a port whose socket the switch serves, and puts the socket where the pod looks for it. A file
 * that a killed switch left there is removed first; where the pod has removed its socket, the port is made anew.
 * @throws Failure of {@link Dataplane.ensurePort}; invalid-config, directory-unsafe, port-failed
 */
export async function ensureServedPort(
  context: NodeContext,
  pool: Pool,
  request: PortRequest,
  allocation: AllocationRecord,
  signal: AbortSignal,
): Promise<PortState> {
  if (pool.dataplane.capabilities.servesInPlace) {
    const { root } = context.config;
    const { interfaceName } = request.owner;
    return ensureInPlace(pool, request, { root, allocationId: allocation.id, interfaceName }, signal);
  }
  const directory = pool.config.switchSockets;
  if (directory === undefined) {
    throw new Failure({
      code: "invalid-config",
      what: "the switch is to make the socket, and the daemon does not know where it makes sockets",
      where: `pool ${pool.config.name}, key switchSockets`,
      fix: "set it to the switch's vhost-sock-dir as the daemon sees it, or let the guest's side make the sockets (socketServer)",
    });
  }
  const publish = (file: string) =>
    publishSocket({
      directory,
      file,
      root: context.config.root,
      allocationId: allocation.id,
      interfaceName: request.owner.interfaceName,
      ownership: allocation.ownership,
    });
  const attempt = async () => {
    const state = await pool.dataplane.ensurePort(request, signal);
    const there = state.socketFile === undefined || (await publish(state.socketFile));
    // Whoever is connected needs no socket any more, and would lose the port.
    return there || state.connected ? state : undefined;
  };
  const own = { directory, file: request.name };
  if (isUnpublished(own) && !(await isOpen(pool, request, signal))) removeStaleSocket(own);
  const first = await attempt().catch((error: unknown) => {
    if (error instanceof Failure && error.code === "port-failed") return undefined;
    throw error;
  });
  if (first !== undefined) return first;
  await pool.dataplane.removePort(request.name, signal);
  removeStaleSocket(own);
  const second = await attempt();
  if (second !== undefined) return second;
  await pool.dataplane.removePort(request.name, signal);
  throw new Failure({
    code: "port-failed",
    what: `the switch made port ${request.name}, and no socket of it is there`,
    where: `switchSockets: ${directory}`,
    fix: "check that this is where ovs-vswitchd makes its sockets: Open_vSwitch.other_config:vhost-sock-dir",
  });
}

/**
 * The switch makes the socket where the pod looks for it, in place of what has its name there, and does not tell when
 * it is gone. Recreating the port would disconnect a peer that is connected, and that peer does not need the socket.
 */
async function ensureInPlace(
  { dataplane }: Pool,
  request: PortRequest,
  place: SocketPlace,
  signal: AbortSignal,
): Promise<PortState> {
  const state = await dataplane.ensurePort(request, signal);
  if (state.connected || hasSocket(place)) return state;
  await dataplane.removePort(request.name, signal);
  const anew = await dataplane.ensurePort(request, signal);
  return { ...anew, changes: [`the socket of port ${request.name} was gone`] };
}

/**
 * Whether the switch has the port open. Where it has not, a socket of its name is a killed switch's, and must not be
 * there when the switch tries (again): bind(2) fails then, and DPDK's vhost library (22.11) closes a descriptor twice,
 * which may be the switch's OpenFlow listener by that time. ovs-vswitchd was seen to hang in accept(2) for good.
 */
async function isOpen(pool: Pool, request: PortRequest, signal: AbortSignal): Promise<boolean> {
  const ports = await pool.dataplane.listPorts(signal);
  return ports.some(({ name, error }) => name === request.name && error === undefined);
}
