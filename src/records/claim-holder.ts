import * as z from "zod";
import { portSettingsSchema } from "../config/port-settings.ts";

/**
 * A result in the status of a ResourceClaim (resource.k8s.io/v1, DeviceRequestAllocationResult), with all that its release,
 * its status and its repair need without the API.
 */
export const claimHolderSchema = z.object({
  kind: z.literal("claim"),
  uid: z.string().min(1),
  namespace: z.string().min(1),
  name: z.string().min(1),
  /** What the pod calls a claim that was made from a template for it; absent where the pod names the claim itself. */
  podClaimName: z.string().min(1).optional(),
  /** Name of the request in the claim, without that of a subrequest. */
  request: z.string().min(1),
  subrequest: z.string().min(1).optional(),
  /** Which of the request's results it is, from 0 on. */
  index: z.number().int().nonnegative(),
  /** Pool of ResourceSlices, not one of ours. */
  slicePool: z.string().min(1),
  device: z.string().min(1),
  shareID: z.string().min(1).optional(),
  /** What DeviceClass and claim ask of the port. */
  port: z.object({
    bridge: z.string().min(1),
    mac: z.string().min(1),
    mtu: z.number().int().optional(),
    settings: portSettingsSchema,
    /** Name of the interface in the claim's status, where its configuration gives one. */
    ifName: z.string().optional(),
    /** Whether the claim itself has addresses. */
    isAddressed: z.boolean(),
  }),
  /** The pod for which the claim was reserved. */
  pod: z.object({ namespace: z.string().min(1), name: z.string().min(1), uid: z.string().min(1) }),
  /** Kubelet does not need it any more, and what is left of it is to be removed. */
  released: z.literal(true).optional(),
});

export type ClaimHolder = z.infer<typeof claimHolderSchema>;

/** Which result of which claim, and for which pod. */
export type ClaimIdentity = Omit<ClaimHolder, "port" | "released">;

/** What the pod knows a claim by: the same in every pod of a template, so that a migrated VM finds its sockets. */
export function claimNameInPod({ podClaimName, name }: Pick<ClaimHolder, "podClaimName" | "name">): string {
  return podClaimName ?? name;
}

/** The interface of a result: a request's name has no dot (DNS label), so no two of a claim are the same. */
export function claimInterface({ request, index }: Pick<ClaimHolder, "request" | "index">): string {
  return index === 0 ? request : `${request}.${index}`;
}

/** The name of a result's interface in the claim's status and metadata. */
export function shownInterface(holder: ClaimHolder): string {
  return holder.port.ifName ?? claimInterface(holder);
}
