/** Links of the chain, in their order. */
export const LINKS = [
  "pod",
  "allocation",
  "directory",
  "device-info",
  "record",
  "port",
  "socket",
  "connected",
  "link",
  "queues",
] as const;

export type LinkName = (typeof LINKS)[number];

/** What was found of one link of the chain. */
export interface Link {
  readonly name: LinkName;
  /** `waiting` for what only the pod's program can do; `unknown` where it cannot be read, which does not break the chain. */
  readonly verdict: "ok" | "broken" | "waiting" | "unknown";
  /** In one line what is there. */
  readonly what: string;
  /** Of one that is not as it should be. */
  readonly cause?: string;
  readonly cure?: string;
}

/** A link before it has its name. */
export type LinkFinding = Omit<Link, "name">;

/** The cure where a pod has lost something that it gets when it starts. */
export const RECREATE = "delete the pod; its controller makes another, which gets new devices";

/** All is well. */
export function ok(what: string): LinkFinding {
  return { verdict: "ok", what };
}

/** Something of ours or of the node's is wrong. */
export function broken(what: string, cause: string, cure: string): LinkFinding {
  return { verdict: "broken", what, cause, cure };
}

/** The pod's program has to do something first. */
export function waiting(what: string, cause: string, cure: string): LinkFinding {
  return { verdict: "waiting", what, cause, cure };
}
