import { describeThrown, Failure } from "../failure/failure.ts";
import { loadService } from "../grpc/load-service.ts";
import { dialUnix } from "../grpc/unix-client.ts";
import { orAborted } from "../sync/deadlines.ts";

/** Devices of one resource that a container holds. */
export interface HeldDevices {
  readonly resource: string;
  readonly ids: readonly string[];
}

/** A container and its devices. */
export interface DeviceHolder {
  readonly name: string;
  readonly devices: readonly HeldDevices[];
}

/** A pod on this node. kubelet names no UID here: a pod of the same name may be another one by now. */
export interface PodDevices {
  readonly podNamespace: string;
  readonly podName: string;
  readonly containers: readonly DeviceHolder[];
}

/** All devices that a pod holds. */
export function devicesOfPod({ containers }: PodDevices): readonly HeldDevices[] {
  return containers.flatMap(({ devices }) => devices);
}

/** Where to ask, and when to give up. */
export interface ListHeldDevicesOptions {
  readonly socketPath: string;
  readonly signal: AbortSignal;
  /** Milliseconds; default 10 000. */
  readonly deadlineMs?: number;
}

/** kubelet's own consumers accept messages of this size; grpc-js' default of 4 MiB is too little for a full node. */
const RECEIVE_LIMIT_BYTES = 16 * 1024 * 1024;

/** Loaded once: parsing it takes some 3 ms. */
const LISTER = loadService("kubelet/pod-resources-v1.proto", "v1.PodResourcesLister");

interface WireList {
  readonly pod_resources: readonly {
    readonly name: string;
    readonly namespace: string;
    readonly containers: readonly {
      readonly name: string;
      readonly devices: readonly { readonly resource_name: string; readonly device_ids: readonly string[] }[];
    }[];
  }[];
}

/**
 * All pods of this node with the devices that they hold, pods without devices too.
 * An empty list means that kubelet said "no pods"; when it could not be asked this throws.
 * @throws Failure kubelet-unavailable
 */
export async function listHeldDevices(options: ListHeldDevicesOptions): Promise<readonly PodDevices[]> {
  const answer = await callList(options).catch((error: unknown) => {
    throw new Failure({
      code: "kubelet-unavailable",
      what: `kubelet's list of held devices is not readable: ${describeThrown(error)}`,
      where: options.socketPath,
      fix: "check that kubelet runs and that the pod-resources directory (not the socket) is mounted",
      cause: error,
    });
  });
  return answer.pod_resources.map((pod) => ({
    podNamespace: pod.namespace,
    podName: pod.name,
    containers: pod.containers.map(({ name, devices }) => ({ name, devices: joinByResource(devices) })),
  }));
}

/** kubelet splits the devices of one resource into several entries, by NUMA node or one by one. */
function joinByResource(
  entries: readonly { readonly resource_name: string; readonly device_ids: readonly string[] }[],
): readonly HeldDevices[] {
  const ids = new Map<string, Set<string>>();
  for (const entry of entries) {
    const known = ids.get(entry.resource_name) ?? new Set();
    for (const id of entry.device_ids) known.add(id);
    ids.set(entry.resource_name, known);
  }
  return [...ids].map(([resource, set]) => ({ resource, ids: [...set] }));
}

async function callList(options: ListHeldDevicesOptions): Promise<WireList> {
  // A pool of its own, so that a failed attempt's back-off does not outlive it.
  const client = dialUnix(LISTER, options.socketPath, {
    "grpc.max_receive_message_length": RECEIVE_LIMIT_BYTES,
    "grpc.use_local_subchannel_pool": 1,
  });
  try {
    return await orAborted(client.call<WireList>("List", {}, options.deadlineMs ?? 10_000), options.signal);
  } finally {
    client.close();
  }
}
