import * as z from "zod";

// What the status socket of cni-dra serves, and vhostuserctl cni-dra prints with -o json, where times are in ISO 8601. Scripts
// depend on it, so keys are added and never renamed. Times are milliseconds since the epoch. Every list is bounded.

const sandboxShape = z.object({
  /** As the runtime names it. */
  sandbox: z.string(),
  netns: z.string(),
  /** ADD runs or was cut short; it is there; its DEL is still to come. */
  state: z.enum(["adding", "added", "deleting"]),
  /** When ADD began. */
  addedAt: z.number(),
  /** Of the result of ADD, with their prefix lengths. */
  addresses: z.array(z.string()),
  /** What plugins have made on the host, by the result of ADD. */
  hostInterfaces: z.array(z.string()),
});

/** An interface of a claim that is prepared on the node. */
const interfaceShape = z.object({
  pod: z.object({ namespace: z.string(), name: z.string(), uid: z.string() }),
  /** In the pod's namespace. */
  claim: z.string(),
  request: z.string(),
  interface: z.string(),
  network: z.string(),
  /** Types, in the order of ADD. */
  plugins: z.array(z.string()),
  sandboxes: z.array(sandboxShape),
  /** Absent unless a DEL has failed. */
  failingDel: z
    .object({
      message: z.string(),
      /** When it was tried first. */
      sinceAt: z.number(),
      /** Whether that is ten minutes ago. */
      isStuck: z.boolean(),
    })
    .optional(),
});

const answer = { node: z.string(), at: z.number() };

/** The interfaces of a node, or of a pod. */
export const claimInterfacesShape = z.object({
  ...answer,
  /** Whether the runtime says which sandboxes start and end. */
  isConnected: z.boolean(),
  interfaces: z.array(interfaceShape),
  leftOut: z.number(),
});

/** What CHECK found. */
export const checkedShape = z.object({
  ...answer,
  interfaces: z.array(
    interfaceShape.extend({
      /** `unchecked`: the network's CNI version has no CHECK, or disableCheck is set, or the interface is not there. */
      outcome: z.enum(["ok", "failed", "unchecked"]),
      reason: z.string().optional(),
    }),
  ),
});

/** DELs that were given up, as they were. */
export const givenUpShape = z.object({ ...answer, interfaces: z.array(interfaceShape) });

export type ClaimInterface = z.infer<typeof interfaceShape>;
export type ClaimInterfaces = z.infer<typeof claimInterfacesShape>;
export type CheckedInterfaces = z.infer<typeof checkedShape>;
export type GivenUp = z.infer<typeof givenUpShape>;
