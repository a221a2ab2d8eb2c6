import { z } from "zod";
import { isAllocationId } from "../names/allocation-id.ts";
import { portSettingsSchema } from "../port-settings/port-settings.ts";
import type { RecordKind } from "./record-store.ts";

/**
 * What CNI did, or was about to do, for one interface of one container. Written before the port is made
 * (`attaching`), so that nothing in the switch is ever without a record; `detaching` means that DEL was
 * answered and the switch has yet to lose the port.
 */
export const portRecordSchema = z.object({
  containerId: z.string().min(1),
  interfaceName: z.string().min(1),
  state: z.enum(["attaching", "attached", "detaching"]),
  allocationId: z.string().refine(isAllocationId),
  device: z.string(),
  pool: z.string(),
  portName: z.string(),
  bridge: z.string(),
  /** The socket as the switch sees it. */
  switchSocketPath: z.string(),
  /** The socket as the pod sees it. */
  podSocketPath: z.string(),
  mac: z.string(),
  mtu: z.number().int().optional(),
  settings: portSettingsSchema.prefault({}),
  network: z.string(),
  netns: z.string(),
  podNamespace: z.string(),
  podName: z.string(),
  podUid: z.string(),
  /** Milliseconds since the epoch. */
  createdAt: z.number(),
});

export type PortRecord = z.infer<typeof portRecordSchema>;

/**
 * Name of the record of one attachment. Interface names may hold characters that file names must not; the
 * separator is one that neither a container id nor an encoded interface name has.
 */
export function portRecordName(containerId: string, interfaceName: string): string {
  return `${containerId}@${encodeURIComponent(interfaceName)}`;
}

export const portRecordKind: RecordKind<PortRecord> = {
  version: 1,
  // A power cut ends every sandbox, and kubelet attaches new ones under new container ids.
  durable: false,
  schema: portRecordSchema,
  fileName: (record) => portRecordName(record.containerId, record.interfaceName),
};
