import { loadService } from "../../../src/grpc/load-service.ts";
import { dialUnix } from "../../../src/grpc/unix-client.ts";
import type { SelectedNetwork } from "./network.ts";

/**
 * In which order a pod's devices meet its networks: sorted since Multus 4.3.0, before that as kubelet listed
 * them, which is arbitrary.
 */
export type DeviceIdOrder = "sorted" | "kubelet";

interface WireList {
  readonly pod_resources: readonly {
    readonly name: string;
    readonly namespace: string;
    readonly containers: readonly {
      readonly devices: readonly { readonly resource_name: string; readonly device_ids: readonly string[] }[];
    }[];
  }[];
}

/**
 * The device id of each network: the i-th network that names a resource gets the i-th id of it, over all of the
 * pod's containers; more networks than ids leaves the last ones without.
 */
export async function deviceIdsOfNetworks(options: {
  readonly pod: { readonly namespace: string; readonly name: string };
  readonly networks: readonly SelectedNetwork[];
  readonly podResourcesSocket: string;
  readonly order: DeviceIdOrder;
}): Promise<readonly (string | undefined)[]> {
  if (options.networks.every(({ resourceName }) => resourceName === undefined)) {
    return options.networks.map(() => undefined);
  }
  const service = loadService("kubelet/pod-resources-v1.proto", "v1.PodResourcesLister");
  const client = dialUnix(service, options.podResourcesSocket, {
    "grpc.max_receive_message_length": 16 * 1024 * 1024,
    "grpc.use_local_subchannel_pool": 1,
  });
  const list = await client.call<WireList>("List", {}, 10_000).finally(() => client.close());
  const ids = new Map<string, string[]>();
  for (const { name, namespace, containers } of list.pod_resources) {
    if (name !== options.pod.name || namespace !== options.pod.namespace) continue;
    for (const { resource_name, device_ids } of containers.flatMap(({ devices }) => devices)) {
      ids.set(resource_name, [...(ids.get(resource_name) ?? []), ...device_ids]);
    }
  }
  if (options.order === "sorted") for (const list of ids.values()) list.sort();
  return options.networks.map(({ resourceName }) => ids.get(resourceName ?? "")?.shift());
}
