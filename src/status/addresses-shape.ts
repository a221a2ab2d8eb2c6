import * as z from "zod";

// What the IPAM agent's status socket serves, and vhostuserctl ip prints with -o json, where times are in ISO 8601. Scripts
// depend on it, so keys are added and never renamed. Times are milliseconds since the epoch. Every list is bounded.

const count = z.number().nonnegative();

/** What one interface of a sandbox holds. */
const interfaceShape = z.object({
  /** Absent where the runtime named no pod. */
  pod: z.object({ namespace: z.string(), name: z.string(), uid: z.string() }).optional(),
  network: z.string(),
  interface: z.string(),
  /** Name of the IPAMClaim of the pod's namespace that keeps the addresses; absent where they are the pod's own. */
  claim: z.string().optional(),
  /** The sandbox, as the runtime names it. */
  container: z.string(),
  netns: z.string(),
  /** When its ADD started; absent where that was before the node's last boot. */
  createdAt: z.number().optional(),
  addresses: z.array(
    z.object({
      /** With the prefix length of its subnet. */
      address: z.string(),
      gateway: z.string().optional(),
      /** Absent for ranges in the network's configuration. */
      pool: z.string().optional(),
      block: z.string(),
    }),
  ),
});

/**
 * Why an address without a running pod is still held: its network namespace is gone and that was seen once; its pod is
 * still there, cannot be looked for, or is not known; or the pod is gone, and the network namespace is there or cannot be
 * looked for.
 */
const whyShape = z.enum([
  "seen-once",
  "pod-there",
  "pod-unknown",
  "pod-unnamed",
  "netns-there",
  "netns-unknown",
]);

const poolShape = z.object({
  name: z.string(),
  space: z.string(),
  mode: z.string(),
  /** This node's blocks with addresses of the pool, and what became of these addresses. */
  node: z.object({ blocks: count, used: count, free: count, resting: count }),
  /** As the controller last wrote it; absent where it wrote nothing yet, or the API server does not answer. */
  cluster: z.object({ total: count, used: count, free: count, blocks: count }).optional(),
  /** The pool's conditions NearlyFull and Exhausted. */
  warning: z.object({ exhausted: z.boolean(), message: z.string() }).optional(),
});

const blockShape = z.object({
  name: z.string(),
  cidr: z.string(),
  /** For which it was taken; absent for ranges in a network's configuration. */
  pool: z.string().optional(),
  /** `suspended`: nothing is handed out until a fresh read shows that it is this node's. */
  state: z.enum(["bound", "suspended", "releasing", "lost"]),
  used: count,
});

/** The addresses of a node. */
export const nodeAddressesShape = z.object({
  node: z.string(),
  version: z.string(),
  startedAt: z.number(),
  /** When this was read. */
  at: z.number(),
  /** Whether the API server has confirmed the blocks since the node was booted; until then no address is handed out. */
  confirmed: z.boolean(),
  /** Why the API server cannot be asked; absent where it answers. */
  apiProblem: z.string().optional(),
  /** Pods of the node that may have addresses of blocks whose journal was lost; these blocks rest meanwhile. */
  survivors: count,
  pools: z.array(poolShape),
  blocks: z.array(blockShape),
  leaks: z.array(
    interfaceShape.extend({
      why: whyShape,
      /** Why something is not known. */
      reason: z.string().optional(),
      /** When its network namespace was first seen to be gone. */
      goneAt: z.number().optional(),
    }),
  ),
  /** Released, and not handed out again before that time. */
  resting: z.array(z.object({ address: z.string(), space: z.string(), untilAt: z.number() })),
  /** How many of each list are left out. */
  leftOut: z.object({ pools: count, blocks: count, leaks: count, resting: count }),
});

/** Who has one address in one space. */
const holderShape = z.discriminatedUnion("state", [
  z.object({
    state: z.literal("held"),
    ...{ space: z.string(), block: z.string(), interface: interfaceShape },
    /** The API server shows the block as another's: the pod keeps the address meanwhile. */
    isLost: z.boolean(),
  }),
  /** In a block of this node, and not handed out; `untilAt` where it rests. */
  z.object({
    state: z.literal("free"),
    space: z.string(),
    block: z.string(),
    untilAt: z.number().optional(),
  }),
  /** In a block of another node, whose agent knows; or of this node, in one that its agent does not use yet. */
  z.object({
    state: z.literal("node"),
    ...{ space: z.string(), block: z.string(), node: z.string(), isQuarantined: z.boolean() },
  }),
  /** By an AddressAllocation. */
  z.object({
    state: z.literal("allocation"),
    space: z.string(),
    allocation: z.string(),
    node: z.string().optional(),
    owner: z
      .object({
        ...{ kind: z.string(), namespace: z.string(), name: z.string() },
        interface: z.string().optional(),
      })
      .optional(),
    key: z.string().optional(),
  }),
  /** In a block from which every node hands out by AddressAllocations, and not handed out. */
  z.object({ state: z.literal("shared"), space: z.string(), block: z.string() }),
  z.object({ state: z.literal("foreign"), space: z.string(), block: z.string() }),
  /** No node has its block; `pools` may hand it out. */
  z.object({ state: z.literal("none"), space: z.string(), pools: z.array(z.string()) }),
  z.object({ state: z.literal("unknown"), space: z.string(), reason: z.string() }),
]);

/** Who has an address, in each space. */
export const whoShape = z.object({
  node: z.string(),
  at: z.number(),
  address: z.string(),
  /** Empty where there is no such space. */
  holders: z.array(holderShape),
  /** Spaces in which it was not looked for. */
  leftOut: count,
});

/** What the interfaces of a pod hold. */
export const podAddressesShape = z.object({
  node: z.string(),
  at: z.number(),
  interfaces: z.array(interfaceShape),
  leftOut: count,
});

export type NodeAddresses = z.infer<typeof nodeAddressesShape>;
export type InterfaceAddresses = z.infer<typeof interfaceShape>;
export type PoolAddresses = z.infer<typeof poolShape>;
export type LeakedAddresses = NodeAddresses["leaks"][number];
export type AddressHolder = z.infer<typeof holderShape>;
export type WhoAnswer = z.infer<typeof whoShape>;
export type PodAddresses = z.infer<typeof podAddressesShape>;
