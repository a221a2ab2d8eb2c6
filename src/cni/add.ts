import { ensureAttachment } from "../attachment/ensure-attachment.ts";
import { removeAttachment } from "../attachment/remove-attachment.ts";
import { vhostUserServerDeviceInfo } from "../device-info/device-info.ts";
import { checkCniFile, removeDeviceInfo, writeDeviceInfo } from "../device-info/device-info-file.ts";
import { Failure } from "../failure/failure.ts";
import { type PortRecord, portRecordName } from "../records/port-record.ts";
import type { CniContext } from "./cni-context.ts";
import { findDevice } from "./find-device.ts";
import { planAttachment } from "./plan-attachment.ts";
import type { AttachmentRequest } from "./request.ts";
import { addResult } from "./result.ts";

/**
 * ADD. The record comes first, so that whatever a crash leaves in the switch is known; every later step is
 * undone when one fails. Repeated for the same container, interface and device it mends and answers the same.
 */
export async function add(
  request: AttachmentRequest,
  context: CniContext,
  signal: AbortSignal,
): Promise<object> {
  const { node } = context;
  const device = await findDevice(request, context, signal);
  const plan = planAttachment(request, device, context);
  const deviceInfoFile = cniDeviceInfoFile(request, context);
  const earlier = node.records.ports.get(portRecordName(request.containerId, request.interfaceName));
  refuseConflict(plan.record, earlier);
  await removeOlderSandboxes(plan.record, context, signal);

  await using undo = new AsyncDisposableStack();
  const repeated = earlier?.state === "attached";
  const record = repeated ? { ...plan.record, createdAt: earlier.createdAt } : plan.record;
  if (!repeated) {
    await node.records.ports.put(record);
    undo.defer(async () => {
      const left = await removeAttachment(node, record, AbortSignal.timeout(ROLLBACK_MS));
      if (left !== undefined)
        context.logger.error({ port: record.portName, err: left }, "roll-back goes on later");
    });
  }
  await ensureAttachment(node, record, plan.allocation, signal);
  if (deviceInfoFile !== undefined) {
    if (!repeated) undo.defer(() => removeDeviceInfo(deviceInfoFile));
    await writeDeviceInfo(deviceInfoFile, vhostUserServerDeviceInfo(record.podSocketPath));
  }
  await node.records.ports.put({ ...record, state: "attached" });
  undo.move();
  context.logger.info(
    {
      pod: `${record.podNamespace}/${record.podName}`,
      interface: record.interfaceName,
      port: record.portName,
    },
    "attached",
  );
  return addResult(request.config, record);
}

/** Time for taking back a half-made port when the request's own time is used up. */
const ROLLBACK_MS = 5_000;

function cniDeviceInfoFile(request: AttachmentRequest, context: CniContext): string | undefined {
  const file = request.config.runtimeConfig?.CNIDeviceInfoFile;
  return file === undefined || file === ""
    ? undefined
    : checkCniFile(context.node.config.deviceInfoDirectory, file);
}

function refuseConflict(wanted: PortRecord, earlier: PortRecord | undefined): void {
  if (earlier === undefined || earlier.state === "detaching") return;
  if (earlier.device === wanted.device && earlier.allocationId === wanted.allocationId) return;
  throw new Failure({
    code: "attachment-conflict",
    what: `interface ${wanted.interfaceName} is attached already, with device ${earlier.device} instead of ${wanted.device}`,
    where: `container ${wanted.containerId}`,
    fix: "the runtime must DEL it first",
  });
}

/**
 * Kubelet makes a new sandbox when one dies, with the same devices; the old one's DEL comes later or never. Its
 * port has the same socket, and a switch takes one port per socket, so it must go first.
 */
async function removeOlderSandboxes(
  wanted: PortRecord,
  context: CniContext,
  signal: AbortSignal,
): Promise<void> {
  for (const other of context.node.records.ports.list()) {
    if (other.containerId === wanted.containerId) continue;
    if (other.switchSocketPath !== wanted.switchSocketPath) continue;
    context.logger.warn(
      { port: other.portName, container: other.containerId },
      "removing an older sandbox's port",
    );
    const left = await removeAttachment(context.node, other, signal);
    if (left !== undefined) throw left;
  }
}
