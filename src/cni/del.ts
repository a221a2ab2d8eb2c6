import { markDetaching, removeAttachment, removePortAnywhere } from "../attachment/remove-attachment.ts";
import { describeThrown, type Failure } from "../failure/failure.ts";
import { attachmentFields } from "../logging/fields.ts";
import { portName } from "../names/port-name.ts";
import { portRecordName } from "../records/port-record.ts";
import type { CniContext } from "./cni-context.ts";

/**
 * DEL: best effort and always a success. Multus may never repeat it, so what cannot be removed now (the switch
 * is away) is remembered and removed by the reconciler. Needs no configuration, no netns, no record.
 */
export async function del(
  containerId: string,
  interfaceName: string,
  context: CniContext,
  signal: AbortSignal,
): Promise<void> {
  const { node, logger } = context;
  const record = node.records.ports.get(portRecordName(containerId, interfaceName));
  if (record !== undefined) {
    const left = await removeAttachment(node, record, signal);
    if (left === undefined) logger.info(attachmentFields(record), "detached");
    else logger.warn({ ...attachmentFields(record), err: left }, "the port is removed later");
    return;
  }
  const name = portName(containerId, interfaceName);
  try {
    const removed = await removePortAnywhere(node, name, undefined, signal);
    if (removed) logger.warn({ port: name }, "removed a port that had no record");
  } catch (error) {
    // A port without a record is found by its owner's mark at the reconciler's next pass.
    logger.warn({ port: name, reason: describeThrown(error) }, "could not look for a port without a record");
  }
}

/**
 * DEL whose turn does not come in time. Only the record can be touched beside the request that hangs: `detaching`,
 * it makes the reconciler remove the port, and an ADD of this very interface fail and take back what it made.
 */
export async function delLater(
  containerId: string,
  interfaceName: string,
  context: CniContext,
  busy: Failure,
): Promise<void> {
  await markDetaching(context.node, portRecordName(containerId, interfaceName));
  context.logger.warn({ port: portName(containerId, interfaceName), err: busy }, "the port is removed later");
}
