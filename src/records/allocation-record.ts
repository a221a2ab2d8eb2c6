import { z } from "zod";
import { isAllocationId } from "../names/allocation-id.ts";
import { isPoolName, parseDeviceId } from "../names/device-id.ts";
import { directoryOwnershipSchema } from "../names/directory-ownership.ts";
import type { RecordKind } from "./record-store.ts";

/**
 * One answered Allocate: a directory `<root>/<id>` and what is in it. Kubelet never repeats the call for a
 * running pod, so this is all there is to rebuild the directory from after a reboot.
 */
export const allocationRecordSchema = z.object({
  id: z.string().refine(isAllocationId),
  pool: z.string().refine(isPoolName),
  resource: z.string(),
  devices: z.array(z.string().refine((id) => parseDeviceId(id) !== undefined)).min(1),
  ownership: directoryOwnershipSchema,
  /**
   * The pool's switch and bridge at that time, with the keys of its kind: its ports are in it whatever the configuration
   * says later. Absent, like the next two, from records of releases that did not note it.
   */
  dataplane: z.looseObject({ type: z.string(), bridge: z.string() }).optional(),
  /** Where that switch makes sockets of its own, if it does. */
  switchSockets: z.string().optional(),
  /** Who makes the sockets, as the container was told. */
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

export const allocationRecordKind: RecordKind<AllocationRecord> = {
  version: 1,
  durable: true,
  // What a later release has added stays in it, for that release to find again.
  schema: allocationRecordSchema.loose(),
  nameOf: (record) => record.id,
};
