// What a claim's interface gets while the API server is away: what it had in the last sandbox of the same pod.
import { describeThrown } from "../../failure/failure.ts";
import { ApiFailure } from "../../kube-api/api-failure.ts";
import type { AgentContext } from "../agent-context.ts";
import { type Allocation, entryKey } from "../journal-entries.ts";
import { type AllocationRequest, allocationFields } from "../request.ts";

/** A runtime makes the next sandbox of a pod that goes on at once, or after kubelet's pauses of some minutes. */
const KEPT_MS = 60 * 60_000;

/**
 * The addresses that an interface had by its claim in the former sandbox of the same pod (UID) and boot; undefined where it had
 * none here, or the error is not that of an API server that does not answer. Without that server it is not known whether the
 * claim is still there, and it need not be: the controller frees no address of a claim while the object of a pod that used it
 * is there, so the pod has them again just as if its sandbox had gone on. To other pods of the VM that does not apply.
 */
export function formerAddresses(
  { config, pod, resourceClaim, interfaceName, containerId, netns, raw }: AllocationRequest,
  error: unknown,
  { state, logger }: AgentContext,
): Allocation | undefined {
  if (!(error instanceof ApiFailure && error.isRetryable) || pod === undefined) return undefined;
  // It is prepared once for a pod, whatever becomes of sandboxes.
  if (resourceClaim !== undefined) return undefined;
  const key = entryKey.former(pod, config.name, interfaceName);
  const [current] = [...state.allocations.values()]
    .filter((one) => one.claim !== undefined && one.pod?.uid === pod.uid)
    .filter((one) => one.network === config.name && one.interfaceName === interfaceName)
    .sort((one, other) => other.startedAtMs - one.startedAtMs);
  const earlier = current ?? state.former.get(key)?.allocation;
  if (earlier?.bootId !== state.bootId) return undefined;
  logger.warn(
    { ...allocationFields(earlier), claim: earlier.claim, reason: describeThrown(error) },
    "the API server does not answer: the interface gets the addresses that it had in the pod's former sandbox",
  );
  return { ...earlier, containerId, netns, startedAtMs: raw.startedAtMs };
}

/**
 * Forgets what no sandbox is made for any more: a former sandbox that is still there goes on without the interface, which was
 * unplugged.
 * @throws Failure `record-unwritable`
 */
export async function forgetFormer({ state, hasNetns, clock }: AgentContext): Promise<void> {
  for (const [key, { allocation, sinceMs }] of [...state.former]) {
    const isOld = clock.monotonic() - sinceMs >= KEPT_MS;
    if (isOld || (await hasNetns(allocation.netns).catch(() => true))) await state.forgetFormer(key);
  }
}
