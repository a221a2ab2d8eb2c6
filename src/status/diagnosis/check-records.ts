import type { TracedInterface } from "../shape.ts";
import { broken, type LinkFinding, ok, waiting } from "./link.ts";

const ANEW = "delete the pod; its controller makes it anew, and it gets everything afresh";

/** Whether kubelet says that the pod has the device. */
export function checkPod(one: TracedInterface): LinkFinding {
  const pod = `${one.pod.namespace}/${one.pod.name}`;
  switch (one.holder) {
    case "held":
      return ok(`${pod} holds ${one.device}`);
    case "unknown":
      return { verdict: "unknown", what: `kubelet does not tell: ${one.holderUnknown ?? "no reason"}` };
    case "not-held":
      return broken(
        `kubelet does not list ${one.device} for ${pod}`,
        "the pod has ended, or kubelet lost its list of devices (its checkpoint) and will not give it back",
        `wait for the daemon to take the rest away; where the pod still runs, ${ANEW}`,
      );
  }
}

/** Whether the daemon remembers the Allocate. */
export function checkAllocation(one: TracedInterface): LinkFinding {
  if (one.allocation !== undefined) return ok(`${one.allocation} for ${one.device}, pool ${one.pool}`);
  return broken(
    `no record of an allocation holds ${one.device}`,
    "its file in the records directory is torn or was removed; kubelet never repeats Allocate for a running pod",
    `look at vhostuserctl doctor (records); then ${ANEW}`,
  );
}

/** Whether Multus, and so KubeVirt, finds where the socket is. */
export function checkDeviceInfo({ deviceInfo }: TracedInterface): LinkFinding {
  if (deviceInfo === undefined) return ok("not looked at");
  const files = [deviceInfo.device, ...(deviceInfo.attachment === undefined ? [] : [deviceInfo.attachment])];
  for (const { file, state, reason } of files) {
    if (state === "good") continue;
    const what = state === "missing" ? `${file} is not there` : `${file} is wrong: ${reason}`;
    const isAttachment = file === deviceInfo.attachment?.file;
    return isAttachment
      ? broken(
          what,
          "somebody removed or changed what the daemon wrote at CNI ADD; KubeVirt may have read it before",
          `if the VM does not start, ${ANEW}`,
        )
      : broken(
          what,
          "somebody removed or changed what the daemon wrote at Allocate, and Multus reads it when it attaches",
          "the daemon writes it anew in a moment; its log tells why if it cannot, for example because something else lies there",
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
        "kubectl describe pod tells the error of Multus; check that the network's annotation k8s.v1.cni.cncf.io/resourceName is this pool's resource, and the daemon's log",
      );
    case "attaching":
      return waiting(
        `${one.name} is being attached`,
        "a CNI ADD runs at the moment, or one did not end and is about to be taken back",
        "look again in some seconds; kubectl describe pod tells the error of Multus",
      );
    default:
      return broken(
        `${one.name} is being detached (${one.state})`,
        "CNI DEL was called: the pod ends, or its sandbox was made anew",
        one.state === "releasing"
          ? "an IPAM plugin has yet to take its addresses back; the daemon's log says why it fails"
          : "the switch has yet to let go of the port; the daemon tries again and again",
      );
  }
}
