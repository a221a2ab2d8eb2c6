import { markDetaching, removeAttachment, removePortAnywhere } from "../attachment/remove-attachment.ts";
import { describeThrown, type Failure, toFailure } from "../failure/failure.ts";
import { attachmentFields } from "../logging/fields.ts";
import { portName } from "../names/port-name.ts";
import { type HeldAddresses, type PortRecord, portRecordName } from "../records/port-record.ts";
import type { CniContext } from "./cni-context.ts";
import { askedIpam } from "./ipam/asked-ipam.ts";
import { failedReleases, forAnotherTry, releaseNowOrLater } from "./ipam/release-addresses.ts";
import { didNothing, type IpamCall, runIpam } from "./ipam/run-ipam.ts";
import type { AttachmentTarget, RawRequest } from "./request.ts";

/**
 * DEL: best effort. Multus may never repeat it, so what cannot be removed now (the switch is away, the IPAM plugin
 * fails) is remembered and removed later, and DEL succeeds. Needs no configuration, no netns, no record.
 * @throws Failure `ipam-failed` where the IPAM plugin fails and there is no record to remember that with
 */
export async function del(
  target: AttachmentTarget,
  raw: RawRequest,
  context: CniContext,
  signal: AbortSignal,
): Promise<void> {
  const { containerId, interfaceName } = target;
  const record = context.node.records.ports.get(portRecordName(containerId, interfaceName));
  if (record === undefined) {
    await removeUnrecorded(portName(containerId, interfaceName), context, signal);
    await releaseUnrecorded(raw, context);
    return;
  }
  const left = await removeAttachment(context.node, record, signal);
  if (left === undefined) context.logger.info(attachmentFields(record), "detached");
  else context.logger.warn({ ...attachmentFields(record), err: left }, "the port is removed later");
  // A switch that is away keeps no address from the next pod: what used this one has ended.
  if (record.ipam === undefined) await releaseUnrecorded(raw, context);
  else await releaseRecorded(record, record.ipam, raw, context);
}

async function removeUnrecorded(
  name: string,
  { node, logger }: CniContext,
  signal: AbortSignal,
): Promise<void> {
  try {
    const removed = await removePortAnywhere(node, name, undefined, signal);
    if (removed) logger.warn({ port: name }, "removed a port that had no record");
  } catch (error) {
    // A port without a record is found by its owner's mark at the reconciler's next pass.
    logger.warn({ port: name, reason: describeThrown(error) }, "could not look for a port without a record");
  }
}

/** With the request's own configuration where it has one for this plugin, else with the one of ADD. */
async function releaseRecorded(
  record: PortRecord,
  held: HeldAddresses,
  raw: RawRequest,
  context: CniContext,
): Promise<void> {
  const stdin = askedIpam(raw.stdin) === held.type ? raw.stdin : Buffer.from(held.stdin);
  // Plugins that know pods by name find nothing without CNI_ARGS.
  const args = raw.env["CNI_ARGS"] || (held.env["CNI_ARGS"] ?? "");
  const call: IpamCall = { type: held.type, verb: "DEL", env: { ...raw.env, CNI_ARGS: args }, stdin };
  // A pod of several interfaces has two minutes for all their DELs: one that is repeated must leave time for the next.
  const isFirst = raw.delegate === undefined || failedReleases(record) === 0;
  const delegate = isFirst ? raw.delegate : forAnotherTry(raw.delegate, record);
  await releaseNowOrLater(record, context, delegate, call);
}

/** A plugin that cannot be run has given us nothing; to insist on it would keep the pod from ending. */
async function releaseUnrecorded(raw: RawRequest, { logger }: CniContext): Promise<void> {
  const type = askedIpam(raw.stdin);
  if (type === undefined) return;
  try {
    await runIpam({ type, verb: "DEL", env: raw.env, stdin: raw.stdin }, raw.delegate);
  } catch (error) {
    if (!didNothing(error)) throw error;
    logger.warn({ container: raw.env["CNI_CONTAINERID"], err: toFailure(error) }, "DEL is not handed on");
  }
}

/**
 * DEL whose turn does not come in time. Only the record can be touched beside the request that hangs: `detaching`,
 * it makes the reconciler remove the port, and an ADD of this very interface fail and take back what it made. One that
 * has not written its record yet knows of the DEL from the {@link RequestOrder}.
 */
export async function delLater(target: AttachmentTarget, context: CniContext, busy: Failure): Promise<void> {
  const { containerId, interfaceName } = target;
  await markDetaching(context.node, portRecordName(containerId, interfaceName));
  context.logger.warn({ port: portName(containerId, interfaceName), err: busy }, "the port is removed later");
}
