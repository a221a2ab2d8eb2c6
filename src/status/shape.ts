import * as z from "zod";
import { directoryOwnershipSchema } from "../names/directory-ownership.ts";

// What the daemon's status socket serves, and vhostuserctl prints with -o json, where times are in ISO 8601 and modes in
// octal. Scripts depend on it, so keys are added and never renamed. Times are milliseconds since the epoch. What an
// IPAM plugin was called with and a network's external_ids are left out: both may hold what is not for every reader.

const count = z.number().nonnegative();

const podShape = z.object({ namespace: z.string(), name: z.string(), uid: z.string() });

/** A path and what is there; links are not followed. */
const placeShape = z.object({
  path: z.string(),
  kind: z.enum(["directory", "socket", "other", "missing", "unknown"]),
  owner: z.number().optional(),
  group: z.number().optional(),
  /** Permission bits, setgid included. */
  mode: z.number().optional(),
  /** When it was made; 0 where the kernel does not know (Linux before 5.18). */
  madeAt: z.number().optional(),
  /** Why it is unknown. */
  reason: z.string().optional(),
});

/** The ResourceClaim that an allocation was made for, instead of a container's resource. */
const claimShape = z.object({
  namespace: z.string(),
  name: z.string(),
  uid: z.string(),
  request: z.string(),
});

const trafficShape = z.object({ packets: count, bytes: count, dropped: count });

const portShape = z.object({
  name: z.string(),
  bridge: z.string(),
  socketPath: z.string(),
  link: z.enum(["up", "down"]),
  /** Whether a vhost-user peer is connected. */
  connected: z.boolean(),
  mtu: z.number().optional(),
  queuePairs: z.number().optional(),
  /** NUMA node of the guest's memory. */
  numaNode: z.number().optional(),
  traffic: z.object({ fromGuest: trafficShape, toGuest: trafficShape }).optional(),
  /** By the switch's own names of reasons. */
  drops: z.record(z.string(), count).optional(),
  /** The switch's own words where it could not make the port. */
  error: z.string().optional(),
});

const deviceInfoShape = z.object({
  file: z.string(),
  state: z.enum(["good", "missing", "wrong"]),
  /** What is wrong with it. */
  reason: z.string().optional(),
});

const interfaceShape = z.object({
  pod: podShape,
  /** `allocated` for a device of a pod for which CNI ADD has made no record. */
  state: z.enum(["allocated", "attaching", "attached", "detaching", "releasing"]),
  /** Absent, like all that CNI ADD decides, where it is `allocated` only. */
  name: z.string().optional(),
  network: z.string().optional(),
  /** KubeVirt's name of the network in the VM's spec, where it can be found out from the interface's name. */
  vmNetwork: z.string().optional(),
  containerId: z.string().optional(),
  mac: z.string().optional(),
  /** Asked for; what is in force is the port's. */
  mtu: z.number().optional(),
  vlan: z.object({ mode: z.string(), tag: z.number().optional(), trunks: z.array(z.number()) }).optional(),
  /** That an IPAM plugin gave, with their prefix length. */
  addresses: z.array(z.string()).optional(),
  socketServer: z.enum(["guest", "switch"]),
  device: z.string(),
  pool: z.string(),
  resource: z.string().optional(),
  claim: claimShape.optional(),
  /** Absent where there is no record of it. */
  allocation: z.string().optional(),
  /** The socket as the pod sees it. */
  podSocket: z.string().optional(),
  bridge: z.string().optional(),
  portName: z.string().optional(),
  createdAt: z.number(),
  /** What the interface's directory is to have. */
  ownership: directoryOwnershipSchema.optional(),
  places: z.object({ allocation: placeShape, directory: placeShape, socket: placeShape }).optional(),
  /** As the node's. */
  rootProblem: z.string().optional(),
  port: portShape.optional(),
  /** Why nothing is known of the port. */
  portUnknown: z.string().optional(),
});

/** An interface in a trace. */
const tracedShape = interfaceShape.extend({
  /** Whether kubelet says that the pod holds the device. */
  holder: z.enum(["held", "not-held", "unknown"]),
  /** Why that is unknown. */
  holderUnknown: z.string().optional(),
  deviceInfo: z.object({ device: deviceInfoShape, attachment: deviceInfoShape.optional() }).optional(),
  /** The switch of its pool; absent where the pool is not there. */
  switch: z.object({ ready: z.boolean(), reason: z.string().optional() }).optional(),
  /** How the port differs from what was asked. */
  differences: z.array(z.string()).optional(),
});

const poolShape = z.object({
  name: z.string(),
  resource: z.string(),
  bridge: z.string(),
  switch: z.object({
    /** Name of the kind of switch, as the configuration has it. */
    kind: z.string(),
    ready: z.boolean(),
    /** Why it is not. */
    reason: z.string().optional(),
    version: z.string().optional(),
  }),
  /** False for a pool that is kept until its last pod is gone. */
  configured: z.boolean(),
  devices: count,
  healthy: count,
  inUse: count,
  /** Sockets that pods have by ResourceClaims, beside these devices. */
  claims: count,
  registered: z.boolean(),
});

/** Everything about a node. */
export const nodeStatusShape = z.object({
  node: z.string(),
  version: z.string(),
  startedAt: z.number(),
  /** When this was read. */
  at: z.number(),
  /** What is wrong with the file system of all socket directories. */
  rootProblem: z.string().optional(),
  pools: z.array(poolShape),
  /** Of the whole node, by size as in `hugepages-1Gi`. Which pod has which is not known here. */
  hugepages: z.array(z.object({ size: z.string(), total: count, free: count })),
  /** Resources, the dataplane's own too, and whether kubelet knows them. */
  resources: z.array(z.object({ name: z.string(), registered: z.boolean(), registrations: count })),
  allocations: z.array(
    z.object({
      id: z.string(),
      pool: z.string(),
      resource: z.string(),
      claim: claimShape.optional(),
      devices: z.array(z.string()),
      /** Absent until one of its interfaces was attached. */
      pod: podShape.optional(),
      createdAt: z.number(),
    }),
  ),
  interfaces: z.array(interfaceShape),
  leftovers: z.object({
    /** Ports with our mark that no record asks for. */
    ports: z.array(z.object({ name: z.string(), bridge: z.string(), pod: z.string() })),
    /** Directories of allocations without a record. */
    directories: z.array(z.string()),
    /** Files of records that could not be read when the daemon started. */
    records: z.array(z.object({ file: z.string(), reason: z.string() })),
  }),
  /** What was counted since the daemon started; docs/metrics.md says what each is. */
  counts: z.object({
    repairs: z.record(z.string(), count),
    errors: z.array(z.object({ source: z.string(), code: z.string(), count })),
    /** Sockets that were opened to the pool's group. */
    socketsOpened: count,
  }),
  /** When the reconciler went through last. */
  lastPassAt: z.number().optional(),
});

/** The chain of each interface of the pods that were asked for. */
export const traceShape = z.object({
  node: z.string(),
  at: z.number(),
  interfaces: z.array(tracedShape),
});

export type NodeStatus = z.infer<typeof nodeStatusShape>;
export type PoolStatus = NodeStatus["pools"][number];
export type InterfaceStatus = z.infer<typeof interfaceShape>;
export type TracedInterface = z.infer<typeof tracedShape>;
export type TraceAnswer = z.infer<typeof traceShape>;
export type Place = z.infer<typeof placeShape>;
export type DeviceInfoStatus = z.infer<typeof deviceInfoShape>;
