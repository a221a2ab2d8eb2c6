import { portLock } from "../attachment/port-lock.ts";
import { markDetaching, removeAttachment } from "../attachment/remove-attachment.ts";
import { toFailure } from "../failure/failure.ts";
import { didNothing, type IpamRequest } from "../ipam/ipam.ts";
import { ipamTypeOf, runIpam } from "../ipam/plugin-ipam.ts";
import { leasesOf, limitedForRetry, releaseNowOrLater } from "../ipam/release-addresses.ts";
import { attachmentFields } from "../logging/fields.ts";
import {
  type AddressLease,
  interfaceInSandbox,
  type PortRecord,
  portKey,
  type SandboxInterface,
} from "../records/port-record.ts";
import type { CniContext } from "./cni-context.ts";
import { attachmentKey, type RawRequest } from "./request.ts";

/**
 * DEL: best effort. Multus may never repeat it, so what cannot be removed now (the switch is away, the IPAM plugin
 * fails) is recorded and removed later, and DEL succeeds. Needs no configuration, no netns, no record: a port without a
 * record is found by the reconciler, by its owner's mark in the switch. A port that a newer sandbox has taken over stays.
 * @throws Failure of the IPAM plugin where it fails and there is no record to remember that
 */
export async function del(
  target: SandboxInterface,
  raw: RawRequest,
  context: CniContext,
  signal: AbortSignal,
): Promise<void> {
  context.stale.recordEnd(attachmentKey(target), raw.startedAtMs);
  const found = context.node.records.ports.list().filter((record) => concerns(record, target));
  if (found.length === 0) return releaseUnrecorded(raw, context);
  for (const record of found) {
    await context.locks.run(
      portLock(record, `DEL of interface ${target.interfaceName}`, signal),
      () => detach(record, target, raw, context, signal),
      // Only the record can be changed beside the request that hangs: `detaching` makes an ADD of this sandbox fail and
      // undo what it made, and the reconciler remove the port.
      async (busy) => {
        if (record.containerId === target.containerId) await markDetaching(context.node, record);
        context.logger.warn(
          { ...attachmentFields(record), err: busy },
          "DEL timed out, the reconciler removes the port",
        );
      },
    );
  }
}

/** Whether a sandbox's interface has the port, or addresses that it got when it had it. */
function concerns(record: PortRecord, { containerId, interfaceName }: SandboxInterface): boolean {
  if (interfaceInSandbox(record) !== interfaceName) return false;
  return (
    record.containerId === containerId || leasesOf(record).some((lease) => lease.containerId === containerId)
  );
}

async function detach(
  identity: PortRecord,
  target: SandboxInterface,
  raw: RawRequest,
  context: CniContext,
  signal: AbortSignal,
): Promise<void> {
  const record = context.node.records.ports.get(portKey(identity));
  if (record === undefined || !concerns(record, target)) return releaseUnrecorded(raw, context);
  const lease = leasesOf(record).find(({ containerId }) => containerId === target.containerId);
  if (record.containerId === target.containerId) {
    // An older sandbox's ADD may come after the record is gone.
    context.stale.recordEnd(portKey(record), record.startedAtMs);
    const left = await removeAttachment(context.node, record, signal);
    if (left === undefined) context.logger.info(attachmentFields(record), "detached");
    else
      context.logger.warn(
        { ...attachmentFields(record), err: left },
        "port not removed, the reconciler retries it",
      );
  }
  // Also with the switch away: what used the addresses has ended.
  if (lease === undefined) await releaseUnrecorded(raw, context);
  else await releaseRecorded(record, lease, raw, context);
}

/** With the request's own configuration where it has one for this IPAM, else with the one of ADD. */
async function releaseRecorded(
  record: PortRecord,
  lease: AddressLease,
  raw: RawRequest,
  context: CniContext,
): Promise<void> {
  const { type, request } = lease;
  const stdin = ipamTypeOf(raw.stdin) === type ? raw.stdin : Buffer.from(request.stdin);
  // Plugins that know pods by name find nothing without CNI_ARGS.
  const args = raw.env["CNI_ARGS"] || (request.env["CNI_ARGS"] ?? "");
  const asked: IpamRequest = { env: { ...raw.env, CNI_ARGS: args }, stdin };
  // A pod of several interfaces has two minutes for all their DELs: a repeated one must leave time for the next.
  const isFirst = lease.failedReleases === undefined;
  const delegate = isFirst ? raw.delegate : limitedForRetry(raw.delegate, lease);
  await releaseNowOrLater(record, lease, context, delegate, asked);
}

/** Addresses of an attachment without a record. A plugin that cannot be run holds none; insisting would keep the pod. */
async function releaseUnrecorded(raw: RawRequest, { logger }: CniContext): Promise<void> {
  const type = ipamTypeOf(raw.stdin);
  if (type === undefined) return;
  try {
    await runIpam(type, "DEL", raw, raw.delegate);
  } catch (error) {
    if (!didNothing(error)) throw error;
    logger.warn(
      { container: raw.env["CNI_CONTAINERID"], err: toFailure(error) },
      "IPAM plugin cannot run, DEL skipped",
    );
  }
}
