// What the agent keeps on disk: every entry of its journal, by kind.
import * as z from "zod";
import type { KubeObject } from "../kube-api/client.ts";

/** Which journal, node and boot this is. */
const identitySchema = z.object({
  kind: z.literal("identity"),
  /** Random, made with the journal: blocks of this node with another one belong to a journal that was lost. */
  journal: z.string().min(1),
  /** UID of the Node object that owns our blocks; absent until the API server was asked. */
  nodeUid: z.string().min(1).optional(),
  /** The boot in which the API server last confirmed our blocks; absent until then. */
  bootId: z.string().min(1).optional(),
  /**
   * UIDs of the pods, and paths of the network namespaces, that were on the node when this journal found blocks of a lost
   * one, and are not known to be gone: they may use addresses of those blocks. A pod that was deleted by force is known by
   * its network namespace alone.
   */
  survivors: z.array(z.string()).optional(),
  /** SHA-256 of the damaged entries that were seen. */
  damaged: z.string().optional(),
});

const blockSchema = z.object({
  kind: z.literal("block"),
  space: z.string().min(1),
  cidr: z.string().min(1),
  /** The pool for which it was taken; absent where that was a network's own ranges. */
  pool: z.string().optional(),
  /**
   * `releasing`: is being deleted, and nothing is handed out any more. `lost`: the API server shows it as gone or as
   * another's; its addresses stay with the pods that have them, and nothing is handed out.
   */
  state: z.enum(["bound", "releasing", "lost"]),
  /** It was taken back, and which of its addresses were released before is not known: all count as released. */
  isReused: z.literal(true).optional(),
});

const allocationSchema = z.object({
  kind: z.literal("allocation"),
  network: z.string(),
  containerId: z.string().min(1),
  interfaceName: z.string().min(1),
  netns: z.string(),
  /** Absent where the runtime named no pod. */
  pod: z.object({ namespace: z.string(), name: z.string(), uid: z.string() }).optional(),
  /** When the ADD started, in milliseconds of CLOCK_MONOTONIC of that boot. */
  startedAtMs: z.number(),
  bootId: z.string(),
  /** Name of the IPAMClaim of the pod's namespace that has the addresses: they stay its own when the pod is gone. */
  claim: z.string().min(1).optional(),
  addresses: z.array(
    z.object({
      block: z.string().min(1),
      /** With the prefix length of its subnet. */
      address: z.string().min(1),
      gateway: z.string().optional(),
      pool: z.string().optional(),
      /** Of a shared block: name of its AddressAllocation, and what that is kept for, if it is sticky. */
      shared: z.object({ name: z.string().min(1), key: z.string().optional() }).optional(),
    }),
  ),
  routes: z.array(z.looseObject({ dst: z.string(), gw: z.string().optional() })),
  dns: z.looseObject({}).optional(),
});

/** An address of a block was handed out once and released. */
const releasedSchema = z.object({ kind: z.literal("released") });

/**
 * Allocations of a sandbox's interface in shared blocks that it does not use: it may have been about to get some, or has
 * released them. The entry is there before the first one is created, until all are known to be gone.
 */
const unusedSchema = z.object({
  kind: z.literal("unused"),
  /** Whether the interface may have used the addresses, which rest then. */
  wereUsed: z.boolean(),
});

/** What an interface had by a claim until its DEL: for the pod's next sandbox, if the API server is away then. */
const formerSchema = z.object({ kind: z.literal("former"), allocation: allocationSchema });

const objectSchema = z.custom<KubeObject>((value) => typeof value === "object" && value !== null);

const entrySchema = z.discriminatedUnion("kind", [
  identitySchema,
  blockSchema,
  allocationSchema,
  releasedSchema,
  unusedSchema,
  formerSchema,
  /** Pools and spaces as last seen, for a start while the API server is away. */
  z.object({ kind: z.literal("pool"), object: objectSchema }),
  z.object({ kind: z.literal("space"), object: objectSchema }),
]);

export type Entry = z.infer<typeof entrySchema>;
export type Identity = z.infer<typeof identitySchema>;
export type BlockEntry = z.infer<typeof blockSchema>;

/** The addresses of one interface of a sandbox. */
export type Allocation = z.infer<typeof allocationSchema>;

/** Version of the entries. */
export const ENTRY_VERSION = 1;

/** The interface of a sandbox, in a network. */
export type AllocationKey = Pick<Allocation, "network" | "containerId" | "interfaceName">;

/** The key of each entry; names of networks, containers, interfaces, blocks, pools and spaces have no slash. */
export const entryKey = {
  identity: "identity",
  block: (name: string) => `block/${name}`,
  allocation: ({ network, containerId, interfaceName }: AllocationKey) =>
    `allocation/${network}/${containerId}/${interfaceName}`,
  /** @param allocation key of the allocation, which names the same interface */
  unused: (allocation: string) => allocation.replace("allocation/", "unused/"),
  former: (pod: { readonly uid: string }, network: string, interfaceName: string) =>
    `former/${pod.uid}/${network}/${interfaceName}`,
  released: (block: string, address: bigint) => `released/${block}/${address}`,
  pool: (name: string) => `pool/${name}`,
  space: (name: string) => `space/${name}`,
} as const;

/** The key of what the pod's next sandbox may get; undefined for addresses of no claim. */
export function formerKeyOf({ claim, pod, network, interfaceName }: Allocation): string | undefined {
  return claim === undefined || pod === undefined ? undefined : entryKey.former(pod, network, interfaceName);
}

/** @throws Error where it is no entry of this version */
export function parseEntry(value: unknown): Entry {
  const { success, data, error } = entrySchema.safeParse(value);
  if (!success) throw new Error(z.prettifyError(error).replaceAll("\n", " "));
  return data;
}

/** What is kept of a pool or space: of a pool's status only what says which addresses are ours. */
export function withoutCounts({ status, ...object }: KubeObject): KubeObject {
  const { name, uid, resourceVersion } = object.metadata;
  const { imported } = (status as { whereabouts?: { imported?: unknown } } | undefined)?.whereabouts ?? {};
  const kept = imported === undefined ? {} : { status: { whereabouts: { imported } } };
  return { ...object, ...kept, metadata: { name, uid, resourceVersion } } as KubeObject;
}
