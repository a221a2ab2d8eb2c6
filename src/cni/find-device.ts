import { Failure } from "../failure/failure.ts";
import { parseDeviceId } from "../names/device-id.ts";
import type { CniContext } from "./cni-context.ts";
import type { AttachmentRequest } from "./request.ts";

/**
 * The device that an attachment stands on: what Multus hands over, else one that kubelet says the pod holds and
 * no other interface of this container has. The second way serves pods that ask for the resource themselves
 * on a network without the `k8s.v1.cni.cncf.io/resourceName` annotation.
 */
export async function findDevice(
  request: AttachmentRequest,
  context: CniContext,
  signal: AbortSignal,
): Promise<string> {
  const given = request.config.runtimeConfig?.deviceID ?? request.config.deviceID;
  if (given !== undefined && given !== "") {
    if (parseDeviceId(given) !== undefined) return given;
    throw new Failure({
      code: "invalid-network-config",
      what: `device ID ${JSON.stringify(given)} is none of ours`,
      where: "deviceID",
      fix: "let the network's k8s.v1.cni.cncf.io/resourceName annotation name a pool's resource",
    });
  }
  if (request.podName === "") throw noDevice(request, "and CNI_ARGS does not say which pod it is for");
  const held = await context.devicesOfPod(request.podNamespace, request.podName, signal);
  const taken = context.node.records.ports
    .list()
    .filter((record) => record.containerId === request.containerId && record.state !== "detaching")
    .filter((record) => record.interfaceName !== request.interfaceName)
    .map((record) => record.device);
  const own = context.node.records.ports
    .list()
    .find((r) => r.containerId === request.containerId && r.interfaceName === request.interfaceName)?.device;
  if (own !== undefined && held.includes(own)) return own;
  const free = [...held]
    .sort()
    .find((device) => parseDeviceId(device) !== undefined && !taken.includes(device));
  if (free === undefined) throw noDevice(request, "and kubelet says that the pod holds no free one");
  return free;
}

function noDevice(request: AttachmentRequest, and: string): Failure {
  return new Failure({
    code: "unknown-device",
    what: `interface ${request.interfaceName} has no device: Multus handed over none ${and}`,
    where: `pod ${request.podNamespace}/${request.podName}, network ${request.config.name}`,
    fix: "annotate the network with k8s.v1.cni.cncf.io/resourceName: vhostuser/sockets",
  });
}
