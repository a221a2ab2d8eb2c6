import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { type handleUnaryCall, status, type UntypedServiceImplementation } from "@grpc/grpc-js";
import { loadService } from "../../../src/grpc/load-service.ts";
import { serveUnix, type UnixServer } from "../../../src/grpc/unix-server.ts";
import type { DeviceManager } from "./device-manager.ts";
import type { PodRequest } from "./pod.ts";
import { shuffled } from "./seeded-random.ts";
import type { TokenBucket } from "./token-bucket.ts";

/** A pod with its UID. */
export interface RunningPod {
  readonly uid: string;
  readonly request: PodRequest;
}

/** A pod as List shows it. */
export interface ListedPod {
  readonly name: string;
  readonly namespace: string;
  readonly containers: readonly object[];
}

/** What the PodResources service works with. */
export interface PodResourcesOptions {
  readonly socketPath: string;
  readonly manager: DeviceManager;
  readonly pods: () => readonly RunningPod[];
  /** What List says of the pods. */
  readonly lie: (pods: readonly ListedPod[]) => readonly ListedPod[];
  readonly random: () => number;
  readonly bucket: TokenBucket;
  /** Resolves when an answer may arrive; what it says is from before. */
  readonly late: () => Promise<void>;
}

/** Serves kubelet's PodResources v1. */
export async function servePodResources(options: PodResourcesOptions): Promise<UnixServer> {
  await mkdir(dirname(options.socketPath), { recursive: true });
  const { definition } = loadService("kubelet/pod-resources-v1.proto", "v1.PodResourcesLister");
  const implementation: UntypedServiceImplementation = {
    List: limited(options, () => {
      options.manager.collect();
      return { pod_resources: options.lie(options.pods().map((pod) => describe(pod, options))) };
    }),
    GetAllocatableResources: limited(options, () => ({
      devices: options.manager
        .healthyDevices()
        .map(({ resource, id, numaNodes }) => entry(resource, id, numaNodes)),
    })),
    Get: limited(options, ({ pod_name, pod_namespace }: { pod_name: string; pod_namespace: string }) => {
      const pod = options
        .pods()
        .find(({ request }) => request.name === pod_name && request.namespace === pod_namespace);
      if (pod === undefined) throw new Error(`pod ${pod_name} in namespace ${pod_namespace} not found`);
      return { pod_resources: describe(pod, options) };
    }),
  };
  return serveUnix({ socketPath: options.socketPath, services: [{ definition, implementation }] });
}

/** App containers and restartable init containers; every device in an entry of its own, in arbitrary order. */
function describe({ uid, request }: RunningPod, { manager, random }: PodResourcesOptions): ListedPod {
  const sidecars = (request.initContainers ?? []).filter(({ restartable }) => restartable === true);
  const containers = [...sidecars, ...request.containers].map(({ name }) => {
    const devices = manager
      .held(uid, name)
      .flatMap(({ resource, ids, numaNodes }) => ids.map((id) => entry(resource, id, numaNodes[id] ?? [])));
    return { name, devices: shuffled(devices, random) };
  });
  return { name: request.name, namespace: request.namespace, containers };
}

function entry(resource_name: string, id: string, numaNodes: readonly number[]): object {
  const topology = numaNodes.length === 0 ? null : { nodes: numaNodes.map((ID) => ({ ID })) };
  return { resource_name, device_ids: [id], topology };
}

function limited<Request>(
  options: PodResourcesOptions,
  answer: (request: Request) => object,
): handleUnaryCall<Request, object> {
  return async (call, respond) => {
    if (!options.bucket.take()) {
      respond({ code: status.RESOURCE_EXHAUSTED, details: "rejected by rate limit" });
      return;
    }
    try {
      const answered = answer(call.request);
      await options.late();
      respond(null, answered);
    } catch (error) {
      respond({ code: status.UNKNOWN, details: (error as Error).message });
    }
  };
}
