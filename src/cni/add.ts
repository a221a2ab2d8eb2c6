import { isDeepStrictEqual } from "node:util";
import { type VhostUserDeviceInfo, vhostUserDeviceInfo, writeDeviceInfo } from "../allocation/device-info.ts";
import { ensureAttachment } from "../attachment/ensure-attachment.ts";
import { removeAttachment } from "../attachment/remove-attachment.ts";
import { Failure } from "../failure/failure.ts";
import { attachmentFields } from "../logging/fields.ts";
import { isGoing, type PortRecord, portRecordName } from "../records/port-record.ts";
import { notePod } from "../records/records.ts";
import type { CniContext } from "./cni-context.ts";
import { findDevice } from "./find-device.ts";
import { releaseForAnother, withAddressesHeld } from "./ipam/hold-addresses.ts";
import { releaseNowOrLater } from "./ipam/release-addresses.ts";
import { removeOlderSandboxes } from "./older-sandboxes.ts";
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
    key: plan.allocation.id,
    where: `allocation ${plan.allocation.id}`,
    what: `ADD of interface ${request.interfaceName}`,
    signal,
  };
  const record = await context.locks.run(turn, () => {
    refuseOvertaken(plan.record, request, context);
    return attach(plan, request, context, signal);
  });
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
  const name = portRecordName(request.containerId, request.interfaceName);
  const earlier = node.records.ports.get(name);
  refuseConflict(plan.record, earlier);
  // Kubelet has said that the pod holds the device: that stays true whatever becomes of this ADD.
  notePod(node.records, plan.record);
  await removeOlderSandboxes(plan.record, request, context, signal);
  const repeated = earlier?.state === "attached";
  // An IPAM plugin gives one interface addresses once; what a crash has left of an earlier ADD goes first.
  if (!repeated && earlier !== undefined) await releaseForAnother(earlier, request, context);
  // From the record on the DEL's mark on it tells.
  if (context.order.isEndedSince(name, request.raw.startedAtMs)) throw calledOff(plan.record);

  await using undo = new AsyncDisposableStack();
  const planned = repeated ? repeatedRecord(plan.record, earlier) : plan.record;
  if (!repeated) {
    await node.records.ports.put(planned);
    undo.defer(() => rollBack(planned, request, context));
  }
  const record = await withAddressesHeld(planned, request, context);
  // The note does not wait for the switch: after a crash in between the reconciler makes the port, and DEL removes it.
  await allDone([ensureAttachment(node, record, plan.allocation, signal), noteAttached(record, context)]);
  if (record.deviceInfoFile !== undefined) writeDeviceInfo(record.deviceInfoFile, deviceInfoOf(record));
  refuseCalledOff(record, context);
  undo.move();
  return record;
}

/** As it is asked for now, with what the first ADD has settled for good. */
function repeatedRecord({ ipam: _, ...wanted }: PortRecord, { createdAt, ipam }: PortRecord): PortRecord {
  return { ...wanted, createdAt, ...(ipam === undefined ? {} : { ipam }) };
}

/** Never throws: the caller is to hear why ADD failed, not why its roll-back did. */
async function rollBack(record: PortRecord, { raw }: AttachmentRequest, context: CniContext): Promise<void> {
  const left = await removeAttachment(context.node, record, AbortSignal.timeout(ROLLBACK_MS));
  if (left !== undefined) {
    context.logger.error(
      { ...attachmentFields(record), err: left },
      "the reconciler goes on with the roll-back",
    );
  }
  await releaseNowOrLater(record, context, raw.delegate);
}

/** Waits for all of them whatever becomes of one: nothing may go on beside the roll-back. @throws what the first threw */
async function allDone(works: readonly Promise<unknown>[]): Promise<void> {
  for (const result of await Promise.allSettled(works)) {
    if (result.status === "rejected") throw result.reason;
  }
}

async function noteAttached(record: PortRecord, { node }: CniContext): Promise<void> {
  const name = portRecordName(record.containerId, record.interfaceName);
  const attached: PortRecord = { ...record, state: "attached" };
  // A repeated ADD changes nothing, and then nothing is written.
  if (isDeepStrictEqual(node.records.ports.get(name), attached)) return;
  await node.records.ports.update(name, (now) => (now === undefined || isGoing(now) ? undefined : attached));
}

/** @throws Failure `called-off` where a DEL that could not wait for this ADD was answered: nobody else would undo it */
function refuseCalledOff(record: PortRecord, { node }: CniContext): void {
  const { containerId, interfaceName } = record;
  if (node.records.ports.get(portRecordName(containerId, interfaceName))?.state === "attached") return;
  throw calledOff(record);
}

function calledOff({ containerId, interfaceName }: PortRecord): Failure {
  return new Failure({
    code: "called-off",
    what: `interface ${interfaceName} was detached while its ADD was still running`,
    where: `container ${containerId}`,
    fix: "the port is removed; the runtime may ADD it again",
  });
}

/** @throws Failure `called-off` where a newer sandbox's ADD began after this one and has had its turn before it */
function refuseOvertaken(record: PortRecord, { raw }: AttachmentRequest, { order }: CniContext): void {
  const { switchSocketPath, containerId } = record;
  if (order.take(switchSocketPath, { containerId, startedAtMs: raw.startedAtMs })) return;
  throw new Failure({
    code: "called-off",
    what: `interface ${record.interfaceName} belongs to a newer sandbox of the pod, whose ADD began later`,
    where: `container ${containerId}`,
    fix: "nothing was changed; the runtime has given this sandbox up",
  });
}

/** Time for taking back a half-made port when the request's own time is used up. */
const ROLLBACK_MS = 5_000;

function deviceInfoOf({ podSocketPath, settings }: PortRecord): VhostUserDeviceInfo {
  return vhostUserDeviceInfo(podSocketPath, settings.socketServer);
}

function refuseConflict(wanted: PortRecord, earlier: PortRecord | undefined): void {
  if (earlier === undefined || isGoing(earlier)) return;
  if (earlier.device === wanted.device && earlier.allocationId === wanted.allocationId) return;
  throw new Failure({
    code: "attachment-conflict",
    what: `interface ${wanted.interfaceName} is attached already, with device ${earlier.device} instead of ${wanted.device}`,
    where: `container ${wanted.containerId}`,
    fix: "the runtime must DEL it first",
  });
}
