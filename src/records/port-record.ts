import * as z from "zod";
import { portSettingsSchema } from "../config/port-settings.ts";
import { isAllocationId } from "../names/allocation-id.ts";
import type { RecordKind } from "./record-store.ts";

/** What an IPAM gave an interface, in one form for all CNI versions. */
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

/** Addresses that an IPAM may hold for one sandbox's interface, and what their release needs. */
const addressLeaseSchema = z.object({
  containerId: z.string().min(1),
  /** `ipam.type` of the network. */
  type: z.string(),
  /** The ADD that asked for them; the DEL gets the same configuration. */
  request: z.object({ stdin: z.string(), env: z.record(z.string(), z.string()) }),
  /** Absent until the IPAM has answered: it may hold addresses all the same. */
  given: addressingSchema.optional(),
  /** Failed tries to release them; `lastAt` in milliseconds since the epoch. */
  failedReleases: z.object({ count: z.number().int(), lastAt: z.number() }).optional(),
});

export type AddressLease = z.infer<typeof addressLeaseSchema>;

/**
 * The port of one interface of an allocation, and the sandbox that has it now. Written before the port is made
 * (`attaching`), so that no port in the switch is without a record. `detaching`: DEL was answered, the switch still has
 * the port. `releasing`: the port is gone, addresses are still to be released, which takes a CNI executable.
 */
export const portRecordSchema = z.object({
  allocationId: z.string().refine(isAllocationId),
  interfaceName: z.string().min(1),
  /** Name of the interface in its sandbox, where that is another: a claim's port is named after its request. */
  cniInterface: z.string().min(1).optional(),
  state: z.enum(["attaching", "attached", "detaching", "releasing"]),
  /** Sandbox that has the port; a new sandbox of the same pod takes it over. */
  containerId: z.string().min(1),
  /** When the ADD of that sandbox started, in milliseconds of CLOCK_MONOTONIC: of two sandboxes the later one counts. */
  startedAtMs: z.number(),
  /** Boot of the node whose CLOCK_MONOTONIC that is: another boot's is not comparable. */
  bootId: z.string(),
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
  /** Addresses of the sandbox that has the port; absent where none are managed. */
  lease: addressLeaseSchema.optional(),
  /** Addresses still to be released: of sandboxes that had the port before, and of this one once it is detached. */
  releases: z.array(addressLeaseSchema),
  /** File from which Multus reads our device-info of the attachment; absent where it asks for none. */
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

/** What identifies a port, its record and its socket. */
export type PortIdentity = Pick<PortRecord, "allocationId" | "interfaceName">;

/** Key of a port's record and lock. Interface names may hold characters that file names must not. */
export function portKey({ allocationId, interfaceName }: PortIdentity): string {
  return `${allocationId}@${encodeURIComponent(interfaceName)}`;
}

/** The name that CNI requests have for a port's interface. */
export function interfaceInSandbox({
  interfaceName,
  cniInterface,
}: Pick<PortRecord, "interfaceName" | "cniInterface">): string {
  return cniInterface ?? interfaceName;
}

/** A sandbox's interface, as a CNI request names it. */
export type SandboxInterface = Pick<PortRecord, "containerId" | "interfaceName">;

/** The record of the port that a sandbox has, one that is not ending before others. */
export function portOfSandbox(
  ports: readonly PortRecord[],
  { containerId, interfaceName }: SandboxInterface,
): PortRecord | undefined {
  const own = ports.filter(
    (port) => port.containerId === containerId && interfaceInSandbox(port) === interfaceName,
  );
  return own.find((port) => !isGoing(port)) ?? own[0];
}

export const portRecordKind: RecordKind<PortRecord> = {
  version: 1,
  // A power cut ends every sandbox, and kubelet attaches new ones under new container ids.
  durable: false,
  // What a later release has added stays in it, for that release to find again.
  schema: portRecordSchema.loose(),
  nameOf: portKey,
};
