import type { Link, LinkName } from "../diagnosis/link.ts";
import type { Problem } from "../diagnosis/problems.ts";
import type { InterfaceStatus, NodeStatus, PoolStatus } from "../shape.ts";

// The JSON that the server sends to the page. Server and page are of one release, so it may change freely; scripts use the
// status socket. Control characters are escaped already (names/printable.ts); the page treats every text as untrusted.

/** `degraded`: a pod's program has something to do yet. Worst last. */
export const HEALTHS = ["healthy", "degraded", "broken"] as const;

export type Health = (typeof HEALTHS)[number];

/** A bridge of a switch. What comes from its pool is undefined where no pool uses it. */
export interface PageBridge {
  /** Which switch and which bridge; {@link PageInterface.bridge} refers to it. */
  readonly id: string;
  readonly name: string;
  /** Name of the kind of switch. */
  readonly kind?: string | undefined;
  readonly version?: string | undefined;
  /** Whether it can take ports. */
  readonly ready?: boolean | undefined;
  /** Why not. */
  readonly reason?: string | undefined;
  /** Interfaces that have a port on it. */
  readonly ports: number;
}

export type PagePool = Pick<
  PoolStatus,
  "name" | "resource" | "registered" | "configured" | "devices" | "healthy" | "inUse"
>;

/** An interface of a pod with what the picture shows of it. */
export interface PageInterface extends Pick<InterfaceStatus, "device" | "network" | "portName"> {
  /** The device's where no interface is attached. */
  readonly name: string;
  readonly health: Health;
  /** The first link of its chain that is not as it should be, and what was found there. */
  readonly broken?: Pick<Link, "name" | "what"> | undefined;
  /** Id of its bridge. */
  readonly bridge?: string | undefined;
  readonly socket: "there" | "missing" | "wrong" | "unknown";
  /** Absent where the switch has none, or cannot be read. */
  readonly port?: PagePort | undefined;
  /** Whether the switch's ports could be read. */
  readonly portKnown: boolean;
}

export interface PagePort
  extends Pick<NonNullable<InterfaceStatus["port"]>, "link" | "connected" | "queuePairs"> {
  readonly failed: boolean;
  /** Both directions together; absent where the switch does not count. */
  readonly packets?: number | undefined;
  readonly dropped?: number | undefined;
}

export interface PagePod {
  /** Replaces namespace and name, which may hold any character, in URLs and in the document. */
  readonly id: string;
  readonly namespace: string;
  readonly name: string;
  /** That of its worst interface. */
  readonly health: Health;
  readonly interfaces: readonly PageInterface[];
}

/** A node at one moment. Times are milliseconds since the epoch. */
export interface PageNode extends Pick<NodeStatus, "node" | "version" | "startedAt" | "at" | "lastPassAt"> {
  readonly health: Health;
  readonly problems: readonly Problem[];
  readonly bridges: readonly PageBridge[];
  readonly pools: readonly PagePool[];
  readonly pods: readonly PagePod[];
  /** Of all, shown or not. */
  readonly interfaces: Readonly<Record<Health, number>>;
  /** How many interfaces are left out of {@link PageNode.pods}, the healthy first. */
  readonly leftOut: number;
  /** Allocations of which no interface is attached. */
  readonly unattached: number;
}

/** One interface with its chain. */
export interface PageChain extends Pick<PageInterface, "name" | "health"> {
  /** Up to the first link that is broken; the links that depend on it are left out. */
  readonly chain: readonly Link[];
  /** Links that were not checked, in their order. */
  readonly beyond: readonly LinkName[];
  /** What else is known, for people. */
  readonly facts: readonly (readonly [label: string, text: string])[];
}

/** A pod with the chains of its interfaces. */
export interface PodChains extends Pick<PagePod, "namespace" | "name"> {
  readonly interfaces: readonly PageChain[];
}
