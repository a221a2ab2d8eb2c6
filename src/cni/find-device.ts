import { Failure } from "../failure/failure.ts";
import { parseDeviceId } from "../names/device-id.ts";
import { type ClaimAllocation, isOfClaim } from "../records/allocation-record.ts";
import { interfaceInSandbox, isGoing } from "../records/port-record.ts";
import type { CniContext } from "./cni-context.ts";
import type { NetworkConfig } from "./network-config.ts";
import type { AttachmentRequest } from "./request.ts";

/** The device that Multus passes; empty where it passes none. */
export function givenDevice({ runtimeConfig, deviceID }: NetworkConfig): string {
  return runtimeConfig?.deviceID ?? deviceID ?? "";
}

/** A device of a pod. Many claims may share a device of a ResourceSlice, so for those it is the allocation that counts. */
export interface FoundDevice {
  readonly device: string;
  readonly claimed?: ClaimAllocation;
}

/**
 * The device of an attachment: what Multus passes, else one that kubelet says the pod holds and no other interface of
 * this sandbox has. The second way serves pods that ask for the resource themselves on a network without the
 * `k8s.v1.cni.cncf.io/resourceName` annotation. A passed device must be the pod's own: Multus also passes a `deviceID`
 * that the pod's annotation names, which may be another pod's, and with it that pod's socket. For a network with a claim
 * Multus passes the `k8s.cni.cncf.io/deviceID` of the claim's device.
 * @throws Failure unknown-device, invalid-network-config, kubelet-unavailable
 */
export async function findDevice(request: AttachmentRequest, context: CniContext): Promise<FoundDevice> {
  const { config, podNamespace, podName } = request;
  const given = givenDevice(config);
  const claimed = chooseClaimed(given, request, context);
  if (claimed !== undefined) return { device: given, claimed };
  if (given !== "" && parseDeviceId(given) === undefined) {
    throw new Failure({
      code: "invalid-network-config",
      what: `device ID ${JSON.stringify(given)} is not one of kube-vhostuser`,
      where: "deviceID",
      fix: "let the network's k8s.v1.cni.cncf.io/resourceName annotation name a pool's resource",
    });
  }
  if (podName === "") {
    // Without a pod's name the call comes from the node's root, not through Kubernetes.
    if (given !== "") return { device: given };
    throw noDevice(request, "and CNI_ARGS does not say which pod it is for");
  }
  if (given !== "") {
    if (await context.holders.holds(podNamespace, podName, given)) return { device: given };
    throw new Failure({
      code: "unknown-device",
      what: `kubelet says that the pod does not hold device ${given}`,
      where: `pod ${podNamespace}/${podName}, network ${config.name}`,
      fix: "leave deviceID out of the pod's network annotation; Multus finds the device itself",
    });
  }
  return { device: chooseFree(await context.holders.devicesOf(podNamespace, podName), request, context) };
}

/** Of the pod's claims that have this device, the one whose port this interface has, else the first that none has. */
function chooseClaimed(
  device: string,
  request: AttachmentRequest,
  { node: { records } }: CniContext,
): ClaimAllocation | undefined {
  const { podNamespace, podName, podUid, containerId, interfaceName } = request;
  const claimed = records.allocations
    .list()
    .filter(isOfClaim)
    .filter(
      ({ holder: { device: own, pod, released } }) =>
        own === device &&
        released === undefined &&
        pod.namespace === podNamespace &&
        pod.name === podName &&
        (podUid === "" || pod.uid === podUid),
    )
    // Multus goes through claims in the pod's order, in which kubelet has them prepared.
    .sort((one, other) => one.sequence - other.sequence);
  const userOf = ({ id }: ClaimAllocation) =>
    records.ports
      .list()
      .filter((port) => port.allocationId === id && port.containerId === containerId && !isGoing(port))
      .map(interfaceInSandbox)[0];
  return (
    claimed.find((one) => userOf(one) === interfaceName) ?? claimed.find((one) => userOf(one) === undefined)
  );
}

function chooseFree(held: readonly string[], request: AttachmentRequest, context: CniContext): string {
  const ofSandbox = context.node.records.ports
    .list()
    .filter((port) => port.containerId === request.containerId && !isGoing(port));
  const own = ofSandbox.find((port) => interfaceInSandbox(port) === request.interfaceName)?.device;
  if (own !== undefined && held.includes(own)) return own;
  const taken = ofSandbox.map(({ device }) => device);
  const free = [...held].sort().find((device) => !taken.includes(device));
  if (free === undefined) throw noDevice(request, "and kubelet says that the pod holds no free one");
  return free;
}

function noDevice(request: AttachmentRequest, and: string): Failure {
  return new Failure({
    code: "unknown-device",
    what: `interface ${request.interfaceName} has no device: Multus passed none ${and}`,
    where: `pod ${request.podNamespace}/${request.podName}, network ${request.config.name}`,
    fix:
      "annotate the network with k8s.v1.cni.cncf.io/resourceName: vhostuser/sockets; for VMs of KubeVirt 1.9 or later, disable" +
      " KubeVirt's feature gate ExternalNetResourceInjection, as deploy/kubevirt/kubevirt-cr.yaml does",
  });
}
