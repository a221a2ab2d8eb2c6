import { removeAttachment } from "../attachment/remove-attachment.ts";
import { Failure } from "../failure/failure.ts";
import { attachmentFields } from "../logging/fields.ts";
import type { PortRecord } from "../records/port-record.ts";
import type { CniContext } from "./cni-context.ts";
import { releaseNowOrLater } from "./ipam/release-addresses.ts";
import type { AttachmentRequest } from "./request.ts";

/**
 * Kubelet makes a new sandbox when one dies, with the same devices; the old one's DEL comes later or never. Its
 * port has the same socket, and a switch takes one port per socket, so it must go first. Another pod's never does.
 * @throws Failure `attachment-conflict` for another pod's device, and what the switch says
 */
export async function removeOlderSandboxes(
  wanted: PortRecord,
  { raw }: AttachmentRequest,
  context: CniContext,
  signal: AbortSignal,
): Promise<void> {
  for (const other of context.node.records.ports.list()) {
    if (other.containerId === wanted.containerId || other.allocationId !== wanted.allocationId) continue;
    if (other.state === "releasing") continue;
    if (!isSamePod(other, wanted)) {
      throw new Failure({
        code: "attachment-conflict",
        what: `device ${wanted.device} belongs to pod ${other.podNamespace}/${other.podName}`,
        where: `pod ${wanted.podNamespace}/${wanted.podName}, interface ${wanted.interfaceName}`,
        fix: "leave deviceID out of the pod's network annotation; Multus finds the device itself",
      });
    }
    if (other.switchSocketPath !== wanted.switchSocketPath) continue;
    context.logger.warn(attachmentFields(other), "removing an older sandbox's port");
    const left = await removeAttachment(context.node, other, signal);
    if (left !== undefined) throw left;
    // Before the new one asks for some: a network may have no more addresses than pods.
    await releaseNowOrLater(other, context, raw.delegate);
  }
}

function isSamePod(one: PortRecord, other: PortRecord): boolean {
  const sameUid = one.podUid === "" || other.podUid === "" || one.podUid === other.podUid;
  return one.podNamespace === other.podNamespace && one.podName === other.podName && sameUid;
}
