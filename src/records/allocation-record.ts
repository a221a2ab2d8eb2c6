import * as z from "zod";
import type { LogFields } from "../logging/fields.ts";
import { isAllocationId } from "../names/allocation-id.ts";
import { isPoolName, parseDeviceId } from "../names/device-id.ts";
import { directoryOwnershipSchema } from "../names/directory-ownership.ts";
import { type ClaimHolder, claimHolderSchema, claimInterface } from "./claim-holder.ts";
import type { RecordKind } from "./record-store.ts";

/** What an allocation was made for, and lives as long as. */
const holderSchema = z.discriminatedUnion("kind", [
  /** One Allocate call of the device plugin API: a container's devices of one resource. */
  z.object({
    kind: z.literal("device-plugin"),
    resource: z.string(),
    devices: z.array(z.string().refine((id) => parseDeviceId(id) !== undefined)).min(1),
  }),
  claimHolderSchema,
]);

/**
 * An allocation: a directory `<root>/<id>` and what is in it. Kubelet never repeats the call for a running pod, so this is
 * all there is to rebuild the directory from after a reboot.
 */
const allocationRecordSchema = z.object({
  id: z.string().refine(isAllocationId),
  pool: z.string().refine(isPoolName),
  holder: holderSchema,
  ownership: directoryOwnershipSchema,
  /**
   * The pool's switch and bridge at that time, with the keys of its kind: its ports are in it whatever the configuration
   * says later.
   */
  dataplane: z.looseObject({ type: z.string(), bridge: z.string() }).optional(),
  /** Where that switch makes sockets of its own, if it does. */
  switchSockets: z.string().optional(),
  /** Who makes the sockets, as Allocate answered. */
  socketServer: z.enum(["guest", "switch"]).optional(),
  /** Milliseconds since the epoch. */
  createdAt: z.number(),
  /**
   * The pod that an interface was last attached for. Known in memory alone, and after a restart from the
   * records of its interfaces: of a pod that has none left, reclaiming may wait longer.
   */
  pod: z.object({ namespace: z.string(), name: z.string(), uid: z.string() }).optional(),
  /** Grows by one with each allocation of the pool: clocks step, this does not. */
  sequence: z.number().int().nonnegative(),
});

export type AllocationRecord = z.infer<typeof allocationRecordSchema>;

/** The device plugin's devices of an allocation; none where a claim holds it. */
export function pluginDevicesOf({ holder }: Pick<AllocationRecord, "holder">): readonly string[] {
  return holder.kind === "device-plugin" ? holder.devices : [];
}

/** The names of an allocation's directories: of its devices, or of a claim's interface. */
export function deviceNamesOf({ holder }: Pick<AllocationRecord, "holder">): readonly string[] {
  return holder.kind === "device-plugin" ? holder.devices : [claimInterface(holder)];
}

/** An allocation that a claim holds. */
export type ClaimAllocation = AllocationRecord & { readonly holder: ClaimHolder };

export function isOfClaim(record: AllocationRecord): record is ClaimAllocation {
  return record.holder.kind === "claim";
}

/** What pods asked for: an extended resource, or `<UID>/<request>` of a claim. */
export function resourceOf({ holder }: Pick<AllocationRecord, "holder">): string {
  return holder.kind === "device-plugin" ? holder.resource : `${holder.uid}/${holder.request}`;
}

/** Fields of every log line about one allocation. */
export function allocationFields({ id: allocation, pool, holder }: AllocationRecord): LogFields {
  if (holder.kind === "device-plugin") {
    return { allocation, pool, resource: holder.resource, devices: holder.devices };
  }
  const { namespace, name, device, pod } = holder;
  const ofPod = `${pod.namespace}/${pod.name}`;
  return {
    allocation,
    pool,
    claim: `${namespace}/${name}`,
    interface: claimInterface(holder),
    device,
    pod: ofPod,
  };
}

export const allocationRecordKind: RecordKind<AllocationRecord> = {
  version: 1,
  durable: true,
  // What a later release has added stays in it, for that release to find again.
  schema: allocationRecordSchema.loose(),
  nameOf: (record) => record.id,
};
