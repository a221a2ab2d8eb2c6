import { removeAllocation } from "../allocation/allocation.ts";
import { portLock } from "../attachment/port-lock.ts";
import { removeAttachment } from "../attachment/remove-attachment.ts";
import { isSwitchAway, toFailure } from "../failure/failure.ts";
import {
  isLeaseOfClaim,
  leasesOf,
  releaseNowOrLater,
  retryPendingIpamDels,
} from "../ipam/release-addresses.ts";
import type { ClaimReference } from "../kubelet/dra-service.ts";
import { allocationFields, type ClaimAllocation, isOfClaim } from "../records/allocation-record.ts";
import { portKey } from "../records/port-record.ts";
import { allocationsOfClaim } from "../records/records.ts";
import { within } from "../sync/deadlines.ts";
import { removeClaimFiles } from "./claim-files.ts";
import type { DraContext } from "./dra-context.ts";

/** Milliseconds for one port, so that a switch that hangs does not use up kubelet's time. */
const STEP_MS = 8_000;

/**
 * NodeUnprepareResources for one claim, from records alone: the claim may be gone, or never have been prepared. What
 * cannot be removed now (the switch is away) the reconciler removes. To be called for one claim at a time.
 */
export async function unprepareClaim(
  { uid }: ClaimReference,
  context: DraContext,
  signal: AbortSignal,
): Promise<void> {
  await releaseAllocations(allocationsOfClaim(context.node.records.allocations.list(), uid), context, signal);
  removeClaimFiles(uid, context);
}

/** Releases addresses of claims that are gone, where their plugin failed or kubelet never asked for it. */
export async function releaseLeftAddresses(context: DraContext): Promise<void> {
  const { ipam, clock } = context;
  if (ipam !== undefined) await retryPendingIpamDels(context, ipam, clock.monotonic(), isLeaseOfClaim);
}

/** Records that no pod needs the allocations any more, then removes what they consist of, now or later. Never throws. */
export async function releaseAllocations(
  allocations: readonly ClaimAllocation[],
  context: DraContext,
  signal: AbortSignal,
): Promise<void> {
  const { records } = context.node;
  await Promise.all(
    allocations.map(async ({ id }) => {
      await records.allocations.update(
        id,
        (now) =>
          now === undefined || !isOfClaim(now)
            ? undefined
            : { ...now, holder: { ...now.holder, released: true } },
        "keep in memory",
      );
    }),
  );
  await Promise.all(
    allocations.map(async (allocation) => {
      try {
        await removeReleased(allocation, context, signal);
        context.logger.info(allocationFields(allocation), "released");
      } catch (error) {
        context.logger[isSwitchAway(error) ? "debug" : "warn"](
          { ...allocationFields(allocation), err: toFailure(error) },
          "cannot remove what a claim had, the reconciler retries it",
        );
      }
    }),
  );
}

/** The port first, because a switch would keep trying to connect to a directory that is gone. */
async function removeReleased(
  allocation: ClaimAllocation,
  context: DraContext,
  signal: AbortSignal,
): Promise<void> {
  const { node, places, locks, ipam } = context;
  const { ports, allocations } = node.records;
  const limit = within(signal, STEP_MS);
  for (const port of ports.list().filter(({ allocationId }) => allocationId === allocation.id)) {
    await locks.run(portLock(port, `release of interface ${port.interfaceName}`, limit), async () => {
      const record = ports.get(portKey(port));
      if (record === undefined) return;
      const left = await removeAttachment(node, record, limit);
      // Also with the switch away: what used the addresses has ended.
      if (ipam !== undefined) {
        for (const lease of leasesOf(record).filter(isLeaseOfClaim))
          await releaseNowOrLater(record, lease, context, ipam);
      }
      if (left !== undefined) throw left;
    });
  }
  await removeAllocation(allocation, allocations, places);
}
