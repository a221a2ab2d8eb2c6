import { makeAllocation } from "../allocation/make-allocation.ts";
import { ensureAttachment } from "../attachment/ensure-attachment.ts";
import { portLock } from "../attachment/port-lock.ts";
import { Failure, toFailure } from "../failure/failure.ts";
import {
  ipamRequestOf,
  isLeaseOfClaim,
  releaseAddresses,
  releaseEarlier,
} from "../ipam/release-addresses.ts";
import { withAddressing } from "../ipam/request-addresses.ts";
import type { ClaimReference, PreparedDevice } from "../kubelet/dra-service.ts";
import { attachmentFields } from "../logging/fields.ts";
import { present } from "../names/present.ts";
import type { ClaimAllocation } from "../records/allocation-record.ts";
import { type ClaimIdentity, claimInterface, shownInterface } from "../records/claim-holder.ts";
import { type AddressLease, type PortRecord, portKey } from "../records/port-record.ts";
import { allocationsOfClaim, takeSequences } from "../records/records.ts";
import { cdiDeviceId, environmentName, type PreparedResult } from "./cdi.ts";
import { type AllocatedClaim, parseClaim, refuseIn } from "./claim.ts";
import { liveClaims, removeClaimFiles, writeClaimFiles } from "./claim-files.ts";
import type { DraContext } from "./dra-context.ts";
import { claimIdentity, IPAM_CNI_VERSION, type PortPlan, planPort } from "./plan-port.ts";
import { releaseAllocations } from "./unprepare.ts";

/** The objects of the only API group that a driver has to read at Prepare. */
const CLAIMS = { group: "resource.k8s.io", version: "v1", plural: "resourceclaims" } as const;

/** Results that a claim can have (resource.k8s.io/v1). */
const RESULTS_MAX = 32;

/** Time for undoing what a failed call made, when its own time is used up. */
const UNDO_MS = 4_000;

/**
 * NodePrepareResources for one claim: for each result of ours an allocation with its directory and a port, then the files
 * by which containers get them. All results are checked before anything is made. Repeated, as kubelet does after its own
 * restart and a node's, it adopts what is recorded, repairs it and answers the same. What a call made that fails is
 * removed again. To be called for one claim at a time.
 * @throws Failure `invalid-claim`, those of the API and of the switch
 */
export async function prepareClaim(
  reference: ClaimReference,
  context: DraContext,
  signal: AbortSignal,
): Promise<readonly PreparedDevice[]> {
  const { namespace, name } = reference;
  // Before anything is waited for: in the order of kubelet's calls, which is that of the claims in their pod.
  const sequence = takeSequences(context.node.records.allocations, RESULTS_MAX);
  const claim = parseClaim(await context.api.get({ ...CLAIMS, namespace }, name, signal), reference);
  const prepared: PreparedResult[] = [];
  try {
    const plans = await planClaim(claim, sequence, context, signal);
    await using undo = new AsyncDisposableStack();
    if (plans.every(({ isNew }) => isNew)) undo.defer(() => removeFilesOrLater(claim.uid, context));
    const made: ClaimAllocation[] = [];
    undo.defer(() => releaseAllocations(made, context, AbortSignal.timeout(UNDO_MS)));
    for (const { allocation, record, isNew } of plans) {
      if (isNew) {
        await makeAllocation(
          allocation,
          { places: context.places, allocations: context.node.records.allocations },
          signal,
        );
        made.push(allocation);
      }
      prepared.push({ allocation, port: await ensurePort(allocation, record, claim, context, signal) });
    }
    refuseSameNames(prepared, context);
    if (prepared.length > 0) writeClaimFiles(prepared, context);
    undo.move();
  } catch (error) {
    context.report(reportOf(claim, prepared, toFailure(error)));
    throw error;
  }
  context.report(reportOf(claim, prepared));
  for (const { port } of prepared) context.logger.info(attachmentFields(port), "prepared");
  return answerFor(claim, prepared);
}

/**
 * Plans every result. What is recorded of the claim and is not of these results, or of another pod, was left when an
 * Unprepare was lost, and is released: a pod never gets the socket that another one had.
 */
async function planClaim(
  claim: AllocatedClaim,
  sequence: number,
  context: DraContext,
  signal: AbortSignal,
): Promise<readonly PortPlan[]> {
  const { records } = context.node;
  const recorded = allocationsOfClaim(records.allocations.list(), claim.uid);
  const live = recorded.filter(({ holder }) => holder.released !== true);
  const results = claim.results.filter(({ isAdminAccess }) => !isAdminAccess);
  const plans = results.map((result, index) => {
    const identity = claimIdentity(claim, result);
    const earlier = live.find((one) => isSameResult(one.holder, identity));
    const port =
      earlier &&
      records.ports.get(portKey({ allocationId: earlier.id, interfaceName: claimInterface(identity) }));
    if (earlier !== undefined && port?.state === "attached")
      return { allocation: earlier, record: port, isNew: false };
    return planPort(claim, result, { earlier, sequence: sequence + index }, context);
  });
  const kept = new Set(plans.map(({ allocation }) => allocation.id));
  const left = recorded.filter(({ id }) => !kept.has(id));
  await releaseAllocations(left, context, signal);
  return plans;
}

/** The caller must get the reason why the call failed; what is left the reconciler removes. */
function removeFilesOrLater(uid: string, context: DraContext): void {
  try {
    removeClaimFiles(uid, context);
  } catch (error) {
    context.logger.warn(
      { entry: uid, err: error },
      "cannot remove the files of a claim, the reconciler retries it",
    );
  }
}

function isSameResult(one: ClaimIdentity, other: ClaimIdentity): boolean {
  const identity = ({ request, subrequest, index, slicePool, device, shareID, pod }: ClaimIdentity) =>
    JSON.stringify([request, subrequest, index, slicePool, device, shareID, pod.uid]);
  return identity(one) === identity(other);
}

/** Makes or repairs a result's directory and port. */
function ensurePort(
  allocation: ClaimAllocation,
  planned: PortRecord,
  claim: AllocatedClaim,
  context: DraContext,
  signal: AbortSignal,
): Promise<PortRecord> {
  const { node, locks, ipam } = context;
  const lock = portLock(planned, `Prepare of claim ${claim.namespace}/${claim.name}`, signal);
  return locks.run(lock, async () => {
    const { ports } = node.records;
    // During the wait the reconciler may have removed what a killed daemon left, or CNI attached the port.
    const now = ports.get(portKey(planned));
    const release = async (record: PortRecord, lease: AddressLease) => {
      if (ipam !== undefined && isLeaseOfClaim(lease)) await releaseAddresses(record, lease, context, ipam);
    };
    // The directory is there by now: doctor takes one that is younger than its record for made again.
    const createdAt = context.clock.now();
    const wanted =
      now?.state === "attached"
        ? now
        : { ...planned, createdAt, releases: await releaseEarlier(now, ports, release) };
    if (wanted !== now) await ports.put(wanted);
    const record = ipam === undefined ? wanted : await addressed(wanted, { ports, delegate: ipam });
    await ensureAttachment(node, record, allocation, signal);
    if (record.state === "attached") return record;
    const attached: PortRecord = { ...record, state: "attached" };
    await ports.put(attached);
    return attached;
  });
}

/** With the addresses that the claim's IPAM plugin gives. */
async function addressed(
  planned: PortRecord,
  ipam: Parameters<typeof withAddressing>[3],
): Promise<PortRecord> {
  const { lease } = planned;
  // Already given, or for a sandbox, by the network that has the port now.
  if (lease === undefined || lease.given !== undefined) return planned;
  try {
    return await withAddressing(planned, ipamRequestOf(lease), IPAM_CNI_VERSION, ipam);
  } catch (error) {
    const { code, what } = toFailure(error);
    throw new Failure({
      ...{ code, what, cause: error },
      where: `IPAM plugin ${lease.type} of a claim`,
      fix: "correct ipam in the parameters; a plugin that needs a network namespace, as dhcp does, cannot serve claims",
    });
  }
}

/**
 * @throws Failure `invalid-claim` where containers of the pod would get two sockets by one name: a claim of a template and
 *   one that the pod names may be called the same, and `net-1` be a request beside `net` with two devices; and where two
 *   configurations give one ifName
 */
function refuseSameNames(prepared: readonly PreparedResult[], { node }: DraContext): void {
  const all = [...liveClaims(node.records).values()].flat();
  for (const { allocation } of prepared) {
    const { id, holder } = allocation;
    const { ifName } = holder.port;
    const others = all
      .filter((one) => one.id !== id && one.holder.pod.uid === holder.pod.uid)
      .map((one) => one.holder);
    const name = environmentName(holder);
    const other = others.find((one) => environmentName(one) === name);
    const namesake = ifName === undefined ? undefined : others.find(({ port }) => port.ifName === ifName);
    const found = other ?? namesake;
    if (found === undefined) continue;
    throw refuseIn(holder, holder)(
      `request ${found.request} of claim ${found.name} has the same name in the pod, ${other ? name : ifName}`,
      other
        ? "give the claims other names in the pod (spec.resourceClaims[].name), or the requests"
        : "give each request a configuration with its own ifName",
    );
  }
}

function reportOf(
  { namespace, name, uid, results }: AllocatedClaim,
  prepared: readonly PreparedResult[],
  problem?: Failure,
): Parameters<DraContext["report"]>[0] {
  const devices = results
    .filter(({ isAdminAccess }) => !isAdminAccess)
    .map(({ slicePool: pool, device, shareID }, index) => {
      const own = problem === undefined ? prepared[index] : undefined;
      const port = own?.port;
      const interfaceName = own && shownInterface(own.allocation.holder);
      return present({
        ...{ pool, device, shareID, problem, port, interfaceName },
        socketPath: port?.podSocketPath,
      });
    });
  return { claim: { namespace, name, uid }, devices };
}

/** A device that only administrators look at has no CDI device: nothing is made for it. */
function answerFor(
  { results }: AllocatedClaim,
  prepared: readonly PreparedResult[],
): readonly PreparedDevice[] {
  const left = [...prepared];
  return results.map(({ request, slicePool, device, shareID, isAdminAccess }) => {
    const own = isAdminAccess ? undefined : left.shift();
    return present({
      request_names: [request],
      pool_name: slicePool,
      device_name: device,
      cdi_device_ids: own === undefined ? [] : [cdiDeviceId(own.allocation)],
      share_id: shareID,
    });
  });
}
