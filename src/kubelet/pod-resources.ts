import { describeThrown, Failure } from "../failure/failure.ts";
import { FieldReader } from "../grpc/field-reader.ts";
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
  /** ResourceClaims that it refers to, as `<namespace>/<name>`; absent for none. */
  readonly claims?: readonly string[];
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

/** grpc-js' default of 4 MiB is too little for a full node. */
const RECEIVE_LIMIT_BYTES = 8 * 1024 * 1024;

const LISTER = loadService("kubelet/pod-resources-v1.proto", "v1.PodResourcesLister", { List: readPods });

/**
 * All pods of this node with the devices that they hold, pods without devices too.
 * An empty list means that kubelet said "no pods"; when it could not be asked this throws.
 * @throws Failure kubelet-unavailable
 */
export async function listHeldDevices(options: ListHeldDevicesOptions): Promise<readonly PodDevices[]> {
  return callList(options).catch((error: unknown) => {
    throw new Failure({
      code: "kubelet-unavailable",
      what: `kubelet's list of held devices is not readable: ${describeThrown(error)}`,
      where: options.socketPath,
      fix: "check that kubelet runs and that the pod-resources directory (not the socket) is mounted",
      cause: error,
    });
  });
}

async function callList(options: ListHeldDevicesOptions): Promise<readonly PodDevices[]> {
  // A pool of its own, so that a failed attempt's back-off does not outlive it.
  const client = dialUnix(LISTER, options.socketPath, {
    "grpc.max_receive_message_length": RECEIVE_LIMIT_BYTES,
    "grpc.use_local_subchannel_pool": 1,
  });
  try {
    return await orAborted(
      client.call<readonly PodDevices[]>("List", {}, options.deadlineMs ?? 10_000),
      options.signal,
    );
  } finally {
    client.close();
  }
}

/** Reads kubelet's ListPodResourcesResponse (pod-resources v1): the fields that we use, and no others. */
function readPods(answer: Buffer): readonly PodDevices[] {
  const reader = new FieldReader();
  const pods: PodDevices[] = [];
  reader.read(answer, (field, content) => {
    if (field === 1) pods.push(readPod(content, reader));
  });
  return pods;
}

function readPod(bytes: Buffer, reader: FieldReader): PodDevices {
  const containers: DeviceHolder[] = [];
  const pod = { podNamespace: "", podName: "", containers };
  reader.read(bytes, (field, content) => {
    if (field === 1) pod.podName = content.toString();
    else if (field === 2) pod.podNamespace = content.toString();
    else if (field === 3) containers.push(readContainer(content, reader));
  });
  return pod;
}

/** kubelet splits the devices of one resource into several entries, by NUMA node or one by one. */
function readContainer(bytes: Buffer, reader: FieldReader): DeviceHolder {
  let name = "";
  const ids = new Map<string, Set<string>>();
  const claims: string[] = [];
  reader.read(bytes, (field, content) => {
    if (field === 1) name = content.toString();
    if (field === 5) claims.push(readClaim(content, reader));
    if (field !== 2) return;
    let resource = "";
    const found: string[] = [];
    reader.read(content, (part, text) => {
      if (part === 1) resource = text.toString();
      else if (part === 2) found.push(text.toString());
    });
    const known = ids.get(resource) ?? new Set();
    for (const id of found) known.add(id);
    ids.set(resource, known);
  });
  const devices = [...ids].map(([resource, set]) => ({ resource, ids: [...set] }));
  return { name, devices, ...(claims.length === 0 ? {} : { claims }) };
}

function readClaim(bytes: Buffer, reader: FieldReader): string {
  let name = "";
  let namespace = "";
  reader.read(bytes, (field, content) => {
    if (field === 2) name = content.toString();
    else if (field === 3) namespace = content.toString();
  });
  return `${namespace}/${name}`;
}
