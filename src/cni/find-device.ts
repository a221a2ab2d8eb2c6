import { Failure } from "../failure/failure.ts";
import { parseDeviceId } from "../names/device-id.ts";
import { isGoing } from "../records/port-record.ts";
import type { CniContext } from "./cni-context.ts";
import type { AttachmentRequest } from "./request.ts";

/**
 * The device that an attachment stands on: what Multus hands over, else one that kubelet says the pod holds and
 * no other interface of this container has. The second way serves pods that ask for the resource themselves
 * on a network without the `k8s.v1.cni.cncf.io/resourceName` annotation.
 *
 * What is handed over must be the pod's own. Multus passes on a `deviceID` that the pod's annotation names, so it
 * may be another pod's, and with it would come that pod's socket.
 */
export async function findDevice(request: AttachmentRequest, context: CniContext): Promise<string> {
  const { config, podNamespace, podName } = request;
  const given = config.runtimeConfig?.deviceID ?? config.deviceID ?? "";
  if (given !== "" && parseDeviceId(given) === undefined) {
    throw new Failure({
      code: "invalid-network-config",
      what: `device ID ${JSON.stringify(given)} is none of ours`,
      where: "deviceID",
      fix: "let the network's k8s.v1.cni.cncf.io/resourceName annotation name a pool's resource",
    });
  }
  if (podName === "") {
    // A call that names no pod comes from the node's root and not through Kubernetes.
    if (given !== "") return given;
    throw noDevice(request, "and CNI_ARGS does not say which pod it is for");
  }
  if (given !== "") {
    if (await context.holders.holds(podNamespace, podName, given)) return given;
    throw new Failure({
      code: "unknown-device",
      what: `kubelet says that the pod does not hold device ${given}`,
      where: `pod ${podNamespace}/${podName}, network ${config.name}`,
      fix: "leave deviceID out of the pod's network annotation; Multus finds the device itself",
    });
  }
  return chooseFree(await context.holders.devicesOf(podNamespace, podName), request, context);
}

function chooseFree(held: readonly string[], request: AttachmentRequest, context: CniContext): string {
  const ofContainer = context.node.records.ports
    .list()
    .filter((port) => port.containerId === request.containerId && !isGoing(port));
  const own = ofContainer.find(({ interfaceName }) => interfaceName === request.interfaceName)?.device;
  if (own !== undefined && held.includes(own)) return own;
  const taken = ofContainer.map(({ device }) => device);
  const free = [...held].sort().find((device) => !taken.includes(device));
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
