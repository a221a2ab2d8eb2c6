import { ensureSocketDirectories } from "../allocation/socket-directories.ts";
import type { PortOwner, PortRequest, PortState } from "../dataplane/port.ts";
import { Failure } from "../failure/failure.ts";
import type { AllocationRecord } from "../records/allocation-record.ts";
import type { PortRecord } from "../records/port-record.ts";
import type { NodeContext } from "./node-context.ts";
import { ensureServedPort } from "./serve-socket.ts";

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
