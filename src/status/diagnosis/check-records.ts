import type { TracedInterface } from "../shape.ts";
import { broken, type LinkFinding, ok, waiting } from "./link.ts";

const RECREATE = "delete the pod; its controller makes another, which gets new devices";

/** Whether kubelet says that the pod has the device. */
export function checkPod(one: TracedInterface): LinkFinding {
  const pod = `${one.pod.namespace}/${one.pod.name}`;
  switch (one.holder) {
    case "held":
      return ok(`${pod} holds ${one.device}`);
    case "unknown":
      return { verdict: "unknown", what: `kubelet cannot be asked: ${one.holderUnknown ?? "no reason"}` };
    case "not-held":
      return broken(
        `kubelet does not list ${one.device} for ${pod}`,
        "the pod has ended, or kubelet lost its list of devices (its checkpoint) and will not give it back",
        `wait for the daemon to remove the rest; if the pod still runs, ${RECREATE}`,
      );
  }
}

/** Whether the daemon remembers the Allocate. */
export function checkAllocation(one: TracedInterface): LinkFinding {
  if (one.allocation !== undefined) return ok(`${one.allocation} for ${one.device}, pool ${one.pool}`);
  return broken(
    `no record of an allocation holds ${one.device}`,
    "its file in the records directory is torn or was removed; kubelet never repeats Allocate for a running pod",
    `run vhostuserctl doctor (records); then ${RECREATE}`,
  );
}

/** Whether Multus, and so KubeVirt, finds where the socket is. */
export function checkDeviceInfo({ deviceInfo }: TracedInterface): LinkFinding {
  if (deviceInfo === undefined) return ok("not checked");
  const files = [deviceInfo.device, ...(deviceInfo.attachment === undefined ? [] : [deviceInfo.attachment])];
  for (const { file, state, reason } of files) {
    if (state === "good") continue;
    const what = state === "missing" ? `${file} is not there` : `${file} is wrong: ${reason}`;
    const isAttachment = file === deviceInfo.attachment?.file;
    return isAttachment
      ? broken(
          what,
          "the file that the daemon wrote at CNI ADD was removed or changed; KubeVirt may have read it before",
          `if the VM does not start, ${RECREATE}`,
        )
      : broken(
          what,
          "the file that the daemon wrote at Allocate was removed or changed; Multus reads it when it attaches",
          "the daemon writes it again in a moment; its log says why if it cannot, for example because of another file in its place",
        );
  }
  return ok(deviceInfo.attachment === undefined ? "of the device" : "of the device and of the attachment");
}

/** Whether CNI ADD went through. */
export function checkRecord(one: TracedInterface): LinkFinding {
  switch (one.state) {
    case "attached":
      return ok(`${one.name} attached to network ${one.network}`);
    case "allocated":
      return broken(
        `no interface is attached for ${one.device}`,
        "CNI ADD has not been called for this device, or failed",
        "kubectl describe pod shows Multus' error; check that the network's annotation k8s.v1.cni.cncf.io/resourceName is this pool's resource, and the daemon's log",
      );
    case "attaching":
      return waiting(
        `${one.name} is being attached`,
        "a CNI ADD runs at the moment, or one did not end and is about to be taken back",
        "try again in some seconds; kubectl describe pod shows Multus' error",
      );
    default:
      return broken(
        `${one.name} is being detached (${one.state})`,
        "CNI DEL was called: the pod ends, or its sandbox was replaced",
        one.state === "releasing"
          ? "an IPAM plugin has yet to take its addresses back; the daemon's log says why it fails"
          : "the switch has yet to let go of the port; the daemon tries again and again",
      );
  }
}
