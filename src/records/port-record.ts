import { z } from "zod";
import { portSettingsSchema } from "../config/port-settings.ts";
import { isAllocationId } from "../names/allocation-id.ts";
import type { RecordKind } from "./record-store.ts";

/** What an IPAM plugin gave an interface, in one form for all CNI versions. */
const addressingSchema = z.object({
  /** Addresses with their prefix length. */
  ips: z.array(z.object({ address: z.string(), gateway: z.string().optional() })),
  /** As the plugin gave them; keys beside these two are of CNI 1.1.0. */
  routes: z.array(z.looseObject({ dst: z.string(), gw: z.string().optional() })),
  dns: z.object({
    nameservers: z.array(z.string()),
    domain: z.string().optional(),
    search: z.array(z.string()),
    options: z.array(z.string()),
  }),
});

export type Addressing = z.infer<typeof addressingSchema>;

/** Addresses that an IPAM plugin holds for an interface, and what it takes to give them back. */
const heldAddressesSchema = z.object({
  /** File name of the plugin. */
  type: z.string(),
  /** What its ADD was called with; its DEL gets the same. */
  stdin: z.string(),
  env: z.record(z.string(), z.string()),
  /** What it gave; absent until its ADD has answered, and then nobody knows whether it holds any. */
  given: addressingSchema.optional(),
  /** Tries to give them back that failed, and when the last one was, in milliseconds since the epoch. */
  failedReleases: z.object({ count: z.number().int(), lastAt: z.number() }).optional(),
});

export type HeldAddresses = z.infer<typeof heldAddressesSchema>;

/**
 * What CNI did, or was about to do, for one interface of one container. Written before the port is made
 * (`attaching`), so that nothing in the switch is ever without a record; `detaching` means that DEL was
 * answered and the switch has yet to lose the port; `releasing` that the port is gone and an IPAM plugin has yet
 * to get its addresses back, which takes a CNI executable to run it.
 */
export const portRecordSchema = z.object({
  containerId: z.string().min(1),
  interfaceName: z.string().min(1),
  state: z.enum(["attaching", "attached", "detaching", "releasing"]),
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
  settings: portSettingsSchema,
  /** Absent where no addresses are managed, or all are given back. */
  ipam: heldAddressesSchema.optional(),
  /** File where Multus reads what we tell of the attachment; absent where it asks for none. */
  deviceInfoFile: z.string().optional(),
  network: z.string(),
  netns: z.string(),
  podNamespace: z.string(),
  podName: z.string(),
  podUid: z.string(),
  /** Milliseconds since the epoch. */
  createdAt: z.number(),
});

export type PortRecord = z.infer<typeof portRecordSchema>;

/** Whether an attachment is over, though something of it is still to be cleaned up. */
export function isGoing({ state }: Pick<PortRecord, "state">): boolean {
  return state === "detaching" || state === "releasing";
}

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
  // What a later release has added stays in it, for that release to find again.
  schema: portRecordSchema.loose(),
  nameOf: (record) => portRecordName(record.containerId, record.interfaceName),
};
