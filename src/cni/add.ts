import { isDeepStrictEqual } from "node:util";
import { ensureAttachment } from "../attachment/ensure-attachment.ts";
import { removeAttachment } from "../attachment/remove-attachment.ts";
import { vhostUserServerDeviceInfo } from "../device-info/device-info.ts";
import { checkCniFile, removeDeviceInfo, writeDeviceInfo } from "../device-info/device-info-file.ts";
import { Failure } from "../failure/failure.ts";
import { attachmentFields } from "../logging/fields.ts";
import { type PortRecord, portRecordName } from "../records/port-record.ts";
import type { CniContext } from "./cni-context.ts";
import { findDevice } from "./find-device.ts";
import { type AttachmentPlan, planAttachment } from "./plan-attachment.ts";
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
  const device = await findDevice(request, context);
  const plan = planAttachment(request, device, context);
  // The reconciler, in the turn of an older sandbox, works on the same allocation.
  const turn = {
    containerId: plan.allocation.id,
    where: `allocation ${plan.allocation.id}`,
    what: `ADD of interface ${request.interfaceName}`,
    signal,
  };
  const record = await context.turns.run(turn, () => attach(plan, request, context, signal));
  context.logger.info(attachmentFields(record), "attached");
  return addResult(request.config, record);
}

async function attach(
  plan: AttachmentPlan,
  request: AttachmentRequest,
  context: CniContext,
  signal: AbortSignal,
): Promise<PortRecord> {
  const { node } = context;
  const deviceInfoFile = cniDeviceInfoFile(request, context);
  const earlier = node.records.ports.get(portRecordName(request.containerId, request.interfaceName));
  refuseConflict(plan.record, earlier);
  await removeOlderSandboxes(plan.record, context, signal);

  await using undo = new AsyncDisposableStack();
  const repeated = earlier?.state === "attached";
  const record = repeated ? { ...plan.record, createdAt: earlier.createdAt } : plan.record;
  if (!repeated) {
    await node.records.ports.put(record);
    undo.defer(() => rollBack(record, context));
  }
  await ensureAttachment(node, record, plan.allocation, signal);
  if (deviceInfoFile !== undefined) {
    if (!repeated) undo.defer(() => removeDeviceInfo(deviceInfoFile).catch(() => undefined));
    await writeDeviceInfo(deviceInfoFile, vhostUserServerDeviceInfo(record.podSocketPath));
  }
  await noteAttached(record, context);
  undo.move();
  return record;
}

/** Never throws: the caller is to hear why ADD failed, not why its roll-back did. */
async function rollBack(record: PortRecord, context: CniContext): Promise<void> {
  const left = await removeAttachment(context.node, record, AbortSignal.timeout(ROLLBACK_MS));
  if (left === undefined) return;
  context.logger.error(
    { ...attachmentFields(record), err: left },
    "the reconciler goes on with the roll-back",
  );
}

/** @throws Failure `called-off` where a DEL that could not wait for this ADD was answered: nobody else would undo it */
async function noteAttached(record: PortRecord, { node }: CniContext): Promise<void> {
  const name = portRecordName(record.containerId, record.interfaceName);
  const attached: PortRecord = { ...record, state: "attached" };
  // A repeated ADD changes nothing, and then nothing is written.
  if (isDeepStrictEqual(node.records.ports.get(name), attached)) return;
  const noted = await node.records.ports.update(name, (now) =>
    now === undefined || now.state === "detaching" ? undefined : attached,
  );
  if (noted?.state === "attached") return;
  throw new Failure({
    code: "called-off",
    what: `interface ${record.interfaceName} was detached while its ADD was still running`,
    where: `container ${record.containerId}`,
    fix: "the port is removed; the runtime may ADD it again",
  });
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
 * port has the same socket, and a switch takes one port per socket, so it must go first. Another pod's never does.
 */
async function removeOlderSandboxes(
  wanted: PortRecord,
  context: CniContext,
  signal: AbortSignal,
): Promise<void> {
  for (const other of context.node.records.ports.list()) {
    if (other.containerId === wanted.containerId || other.allocationId !== wanted.allocationId) continue;
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
  }
}

function isSamePod(one: PortRecord, other: PortRecord): boolean {
  const sameUid = one.podUid === "" || other.podUid === "" || one.podUid === other.podUid;
  return one.podNamespace === other.podNamespace && one.podName === other.podName && sameUid;
}
