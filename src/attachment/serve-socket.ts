import type { PortRequest, PortState } from "../dataplane/port.ts";
import { Failure } from "../failure/failure.ts";
import type { AllocationRecord } from "../records/allocation-record.ts";
import type { NodeContext, Pool } from "./node-context.ts";
import { publishSocket, removeStaleSocket } from "./publish-socket.ts";

/**
 * Makes or mends a port whose socket the switch serves, and puts the socket where the pod looks for it. Where the
 * switch could not make it because a killed one left its file, or the pod has removed it, the port is made anew.
 * @throws Failure of {@link Dataplane.ensurePort}; invalid-config, directory-unsafe, port-failed
 */
export async function ensureServedPort(
  context: NodeContext,
  pool: Pool,
  request: PortRequest,
  allocation: AllocationRecord,
  signal: AbortSignal,
): Promise<PortState> {
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
    const there = state.socketFile === undefined || publish(state.socketFile);
    // Whoever is connected needs no socket any more, and would lose the port.
    return there || state.connected ? state : undefined;
  };
  const first = await attempt().catch((error: unknown) => {
    if (error instanceof Failure && error.code === "port-failed") return undefined;
    throw error;
  });
  if (first !== undefined) return first;
  await pool.dataplane.removePort(request.name, signal);
  removeStaleSocket({ directory, file: request.name });
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
