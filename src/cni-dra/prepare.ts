// What kubelet asks of the driver: Prepare and Unprepare of one claim.
import { type AllocatedClaim, parseClaim } from "../dra/claim.ts";
import type { DeviceReport } from "../dra/dra-context.ts";
import { Failure, toFailure } from "../failure/failure.ts";
import type { KubeApi } from "../kube-api/client.ts";
import type { ClaimReference, PreparedDevice } from "../kubelet/dra-service.ts";
import { present } from "../names/present.ts";
import { cdiDeviceId, type FilePlaces, removeCdiFile, writeCdiFile } from "./interface-files.ts";
import type { InterfaceRecord } from "./interface-record.ts";
import type { Interfaces } from "./interfaces.ts";
import { CNI_DRIVER, type PlanOptions, planInterfaces } from "./plan-interfaces.ts";

const CLAIMS = { group: "resource.k8s.io", version: "v1", plural: "resourceclaims" } as const;

/** What claims are prepared with. */
export interface PrepareContext extends PlanOptions {
  readonly api: Pick<KubeApi, "get">;
  readonly interfaces: Pick<Interfaces, "takeSequence" | "prepare" | "unprepare">;
  readonly places: FilePlaces;
  /** Whether the driver hears of every sandbox that starts. */
  readonly isConnected: () => boolean;
  /** Writes into a claim's status why it was refused, unless it has interfaces. */
  readonly refused: (claim: InterfaceRecord["claim"], devices: readonly DeviceReport[]) => void;
}

/**
 * NodePrepareResources for one claim: checks all of it and records it. Its interfaces are made when the pod has a network
 * namespace; a container that uses the claim cannot start before.
 * @throws Failure `invalid-claim`, `runtime-unavailable`, those of the API
 */
export async function prepareClaim(
  reference: ClaimReference,
  context: PrepareContext,
  signal: AbortSignal,
): Promise<readonly PreparedDevice[]> {
  const { api, interfaces, places, isConnected, refused } = context;
  const { namespace } = reference;
  const sequence = interfaces.takeSequence();
  const claim = parseClaim(
    await api.get({ ...CLAIMS, namespace }, reference.name, signal),
    reference,
    CNI_DRIVER,
  );
  try {
    const plans = planInterfaces(claim, context);
    if (plans.length > 0 && !isConnected()) throw notConnected();
    writeCdiFile(await interfaces.prepare(plans, sequence), places);
  } catch (error) {
    refused(referenceOf(claim), refusalsOf(claim, toFailure(error)));
    throw error;
  }
  return claim.results.map(({ request, slicePool, device, shareID, isAdminAccess }) =>
    present({
      request_names: [request],
      pool_name: slicePool,
      device_name: device,
      cdi_device_ids: isAdminAccess ? [] : [cdiDeviceId({ claim: referenceOf(claim), request })],
      share_id: shareID,
    }),
  );
}

/** NodeUnprepareResources for one claim, from records alone. @throws Failure of a DEL, which is tried again */
export async function unprepareClaim(
  { uid }: ClaimReference,
  { interfaces, places }: Pick<PrepareContext, "interfaces" | "places">,
): Promise<void> {
  removeCdiFile(uid, places);
  await interfaces.unprepare(uid);
}

function referenceOf({ namespace, name, uid }: AllocatedClaim): InterfaceRecord["claim"] {
  return { namespace, name, uid };
}

function refusalsOf({ results }: AllocatedClaim, problem: Failure): readonly DeviceReport[] {
  return results.map(({ slicePool: pool, device, shareID }) => ({ pool, device, shareID, problem }));
}

function notConnected(): Failure {
  return new Failure({
    code: "runtime-unavailable",
    what: "the container runtime does not tell this driver of sandboxes that start",
    where: "NRI",
    fix: "check that NRI is enabled in containerd or CRI-O; kubelet tries the pod again",
  });
}
