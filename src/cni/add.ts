import { isDeepStrictEqual } from "node:util";
import { removeDeviceInfo, vhostUserDeviceInfo, writeDeviceInfo } from "../allocation/device-info.ts";
import { ensureAttachment } from "../attachment/ensure-attachment.ts";
import { portLock } from "../attachment/port-lock.ts";
import { removeAttachment } from "../attachment/remove-attachment.ts";
import { Failure, isSwitchAway, toFailure } from "../failure/failure.ts";
import { releaseAddresses, releaseEarlier, releaseNowOrLater } from "../ipam/release-addresses.ts";
import { withAddressing } from "../ipam/request-addresses.ts";
import { attachmentFields } from "../logging/fields.ts";
import { present } from "../names/present.ts";
import {
  type AddressLease,
  interfaceInSandbox,
  isGoing,
  type PortRecord,
  portKey,
  portOfSandbox,
} from "../records/port-record.ts";
import { notePod } from "../records/records.ts";
import type { CniContext } from "./cni-context.ts";
import { findDevice, givenDevice } from "./find-device.ts";
import { type AttachmentPlan, planAttachment } from "./plan-attachment.ts";
import { type AttachmentRequest, attachmentKey } from "./request.ts";
import { addResult } from "./result.ts";

/**
 * ADD: finds the pod's device, then, with the port's lock, asks the IPAM for addresses, makes the directory and the
 * port, and publishes device-info. The record comes first, so that whatever a crash leaves is known, and every later
 * step is undone when one fails. Repeated for the same sandbox, interface and device it repairs and answers the same. A
 * new sandbox of the same pod takes the port of the old one over, whose DEL comes later or never.
 */
export async function add(
  request: AttachmentRequest,
  context: CniContext,
  signal: AbortSignal,
): Promise<object> {
  const device = await findDevice(request, context);
  const plan = planAttachment(request, device, context);
  const lock = portLock(plan.record, `ADD of interface ${request.interfaceName}`, signal);
  const record = await context.locks.run(lock, () => attach(plan, request, context, signal));
  context.logger.info(attachmentFields(record), "attached");
  return addResult(request.config, record);
}

async function attach(
  { record: wanted, allocation, macFor }: AttachmentPlan,
  request: AttachmentRequest,
  context: CniContext,
  signal: AbortSignal,
): Promise<PortRecord> {
  const { node } = context;
  const { records } = node;
  const earlier = records.ports.get(portKey(wanted));
  refuseSuperseded(wanted, earlier, context);
  refuseSharedPort(wanted, earlier);
  refuseConflict(wanted, records.ports.list());
  // Kubelet has said that the pod holds the device: that stays true if this ADD fails.
  notePod(records, wanted);

  await using undo = new AsyncDisposableStack();
  const isRepeated = earlier?.state === "attached" && earlier.containerId === wanted.containerId;
  const planned = isRepeated
    ? repeatedRecord(wanted, earlier)
    : {
        ...wanted,
        releases: await releaseEarlier(earlier, records.ports, (record, lease) =>
          releaseOne(record, lease, request, context),
        ),
      };
  if (!isRepeated) {
    const refuseStale = () => {
      if (context.stale.isStale(attachmentKey(request), wanted.startedAtMs)) throw detachedMeanwhile(wanted);
    };
    refuseStale();
    // The older sandbox is gone, and its DEL does not find the port any more.
    if (earlier?.deviceInfoFile !== undefined) removeDeviceInfo(earlier.deviceInfoFile);
    await records.ports.put(planned);
    undo.defer(() => rollBack(planned, request, context));
    // A DEL that came while the record was written did not see it; a later one changes its state.
    refuseStale();
    refuseSharedDevice(planned, request, context);
  }
  const { raw, config } = request;
  const addressed = await withAddressing(planned, raw, config.cniVersion, {
    ports: records.ports,
    delegate: raw.delegate,
  });
  const record = { ...addressed, mac: macFor(addressed.lease?.given?.ips) };
  // The record does not wait for the switch: after a crash in between the reconciler makes the port, and DEL removes it.
  await allDone([ensureAttachment(node, record, allocation, signal), recordAttached(record, context)]);
  if (record.deviceInfoFile !== undefined) {
    writeDeviceInfo(
      record.deviceInfoFile,
      vhostUserDeviceInfo(record.podSocketPath, record.settings.socketServer),
    );
  }
  // A DEL that could not wait for this ADD was answered: nothing else would remove what was made.
  if (records.ports.get(portKey(record))?.state !== "attached") throw detachedMeanwhile(record);
  undo.move();
  return record;
}

/** As it is asked for now, with what the first ADD has settled. */
function repeatedRecord({ lease: _, ...wanted }: PortRecord, earlier: PortRecord): PortRecord {
  const { createdAt, startedAtMs, lease, releases } = earlier;
  return present({ ...wanted, createdAt, startedAtMs, releases, lease });
}

/**
 * Releases one of an earlier attachment's addresses, those of an older sandbox now or later.
 * @throws Failure where this sandbox's own earlier ADD left addresses that cannot be released
 */
async function releaseOne(
  earlier: PortRecord,
  lease: AddressLease,
  request: AttachmentRequest,
  context: CniContext,
): Promise<void> {
  const { delegate } = request.raw;
  if (lease.containerId !== request.containerId) return releaseNowOrLater(earlier, lease, context, delegate);
  await releaseAddresses(earlier, lease, context, delegate).catch((error: unknown) => {
    const failure = toFailure(error);
    throw new Failure({
      code: failure.code,
      what: `addresses of an earlier attachment cannot be released: ${failure.what}`,
      where: `container ${earlier.containerId}, interface ${earlier.interfaceName}`,
      fix: failure.fix ?? "it is retried with the next request",
      cause: error,
    });
  });
}

/** Never throws: the caller must get the reason why ADD failed, not why its roll-back did. */
async function rollBack(record: PortRecord, { raw }: AttachmentRequest, context: CniContext): Promise<void> {
  const left = await removeAttachment(context.node, record, AbortSignal.timeout(ROLLBACK_MS));
  if (left !== undefined) {
    context.logger[isSwitchAway(left) ? "debug" : "error"](
      { ...attachmentFields(record), err: left },
      "roll-back failed, the reconciler retries it",
    );
  }
  const releases = context.node.records.ports.get(portKey(record))?.releases ?? [];
  const lease = releases.find(({ containerId }) => containerId === record.containerId);
  if (lease !== undefined) await releaseNowOrLater(record, lease, context, raw.delegate);
}

/** Time for undoing a half-made port when the request's own time is used up. */
const ROLLBACK_MS = 5_000;

/** Waits for all of them even if one fails: nothing may run beside the roll-back. @throws what the first threw */
async function allDone(works: readonly Promise<unknown>[]): Promise<void> {
  for (const result of await Promise.allSettled(works)) {
    if (result.status === "rejected") throw result.reason;
  }
}

async function recordAttached(record: PortRecord, { node }: CniContext): Promise<void> {
  const { ports } = node.records;
  const attached: PortRecord = { ...record, state: "attached" };
  // A repeated ADD changes nothing, and then nothing is written.
  if (isDeepStrictEqual(ports.get(portKey(record)), attached)) return;
  await ports.update(portKey(record), (now) => (now === undefined || isGoing(now) ? undefined : attached));
}

/** @throws Failure `superseded` where a newer sandbox of the pod has the port, or had it */
function refuseSuperseded(wanted: PortRecord, earlier: PortRecord | undefined, context: CniContext): void {
  const { startedAtMs, containerId, interfaceName } = wanted;
  const hasNewer =
    earlier !== undefined && earlier.containerId !== containerId && earlier.startedAtMs > startedAtMs;
  if (!hasNewer && !context.stale.isStale(portKey(wanted), startedAtMs)) return;
  throw new Failure({
    code: "superseded",
    what: `interface ${interfaceName} belongs to a newer sandbox of the pod, whose ADD started later`,
    where: `container ${containerId}`,
    fix: "nothing was changed; the runtime has given this sandbox up",
  });
}

function detachedMeanwhile({ containerId, interfaceName }: PortRecord): Failure {
  return new Failure({
    code: "superseded",
    what: `interface ${interfaceName} was detached while its ADD was still running`,
    where: `container ${containerId}`,
    fix: "the port is removed; the runtime may ADD it again",
  });
}

/** @throws Failure `attachment-conflict` for another pod's device, and for another device than the interface has */
function refuseConflict(wanted: PortRecord, ports: readonly PortRecord[]): void {
  const interfaceName = interfaceInSandbox(wanted);
  const own = portOfSandbox(ports, { ...wanted, interfaceName });
  if (
    own !== undefined &&
    !isGoing(own) &&
    (own.device !== wanted.device || portKey(own) !== portKey(wanted))
  ) {
    throw new Failure({
      code: "attachment-conflict",
      what: `interface ${interfaceName} is attached already, with device ${own.device} instead of ${wanted.device}`,
      where: `container ${wanted.containerId}`,
      fix: "the runtime must DEL it first",
    });
  }
  const other = ports.find(
    (port) =>
      port.allocationId === wanted.allocationId &&
      port.containerId !== wanted.containerId &&
      port.state !== "releasing" &&
      !isSamePod(port, wanted),
  );
  if (other === undefined) return;
  throw new Failure({
    code: "attachment-conflict",
    what: `device ${wanted.device} belongs to pod ${other.podNamespace}/${other.podName}`,
    where: `pod ${wanted.podNamespace}/${wanted.podName}, interface ${wanted.interfaceName}`,
    fix: "leave deviceID out of the pod's network annotation; Multus finds the device itself",
  });
}

function isSamePod(one: PortRecord, other: PortRecord): boolean {
  const sameUid = one.podUid === "" || other.podUid === "" || one.podUid === other.podUid;
  return one.podNamespace === other.podNamespace && one.podName === other.podName && sameUid;
}

/** @throws Failure `busy` where an ADD of another interface of the sandbox chose the same device at the same moment */
function refuseSharedDevice(record: PortRecord, { config }: AttachmentRequest, { node }: CniContext): void {
  if (givenDevice(config) !== "") return;
  const other = node.records.ports
    .list()
    .find(
      (port) =>
        port.containerId === record.containerId &&
        port.device === record.device &&
        port.interfaceName !== record.interfaceName &&
        !isGoing(port),
    );
  if (other !== undefined) throw chosenTwice(record, other);
}

/** @throws Failure `busy` where an ADD of another interface of the sandbox chose the port of the same claim */
function refuseSharedPort(wanted: PortRecord, earlier: PortRecord | undefined): void {
  if (earlier === undefined || isGoing(earlier) || earlier.containerId !== wanted.containerId) return;
  if (interfaceInSandbox(earlier) !== interfaceInSandbox(wanted)) throw chosenTwice(wanted, earlier);
}

function chosenTwice(record: PortRecord, other: PortRecord): Failure {
  return new Failure({
    code: "busy",
    what: `device ${record.device} was chosen for interface ${interfaceInSandbox(other)} at the same moment`,
    where: `container ${record.containerId}, interface ${interfaceInSandbox(record)}`,
    fix: "the runtime may ADD it again",
  });
}
