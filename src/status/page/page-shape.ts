import type { PoolAddresses } from "../addresses-shape.ts";
import type { Link } from "../diagnosis/link.ts";
import type { Problem } from "../diagnosis/problems.ts";
import type { InterfaceStatus, NodeStatus, Place, PoolStatus } from "../shape.ts";

// The JSON that the server sends to the page. Server and page are of one release, so it may change freely; scripts use the
// status socket. Control characters are escaped already (names/printable.ts); the page treats every text as untrusted.

/** `degraded`: a pod's program has something to do yet. Worst last. */
export const HEALTHS = ["healthy", "degraded", "broken"] as const;

export type Health = (typeof HEALTHS)[number];

/** A bridge and what its pool says of the switch; only the kind where no pool uses it. */
export interface PageBridge extends Partial<PoolStatus["switch"]> {
  /** Which switch and which bridge; {@link PageInterface.bridge} refers to it. */
  readonly id: string;
  readonly name: string;
  /** Interfaces that have a port on it. */
  readonly ports: number;
}

/** An interface of a pod with what the picture shows of it. */
export interface PageInterface
  extends Pick<
    InterfaceStatus,
    "device" | "network" | "mac" | "vlan" | "addresses" | "portName" | "port" | "portUnknown"
  > {
  /** For people; different for each interface of a pod. */
  readonly name: string;
  readonly health: Health;
  /** The first link of its chain that is not as it should be, and what was found there. */
  readonly broken?: Pick<Link, "name" | "what"> | undefined;
  /** Id of its bridge. */
  readonly bridge?: string | undefined;
  /** What is at its socket's path. */
  readonly socket: Place["kind"];
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

/** A problem, and the id of the pod whose chain it is in. */
export interface PageProblem extends Omit<Problem, "pod"> {
  readonly pod?: string | undefined;
}

/** The addresses of the node's blocks, as its IPAM agent has them. */
export interface PageAddresses {
  readonly pools: readonly (PoolAddresses["node"] & {
    readonly name: string;
    /** How full it is in the whole cluster; absent where that is not known. */
    readonly cluster?: string | undefined;
  })[];
  /** How many pools, and interfaces with leaked addresses, are left out. */
  readonly morePools: number;
  readonly moreLeaks: number;
  readonly leaks: readonly { readonly what: string; readonly why: string }[];
  readonly resting?: string | undefined;
}

/** A node at one moment. Times are milliseconds since the epoch. */
export interface PageNode
  extends Pick<NodeStatus, "node" | "version" | "startedAt" | "at" | "lastPassAt" | "pools" | "hugepages"> {
  readonly health: Health;
  readonly problems: readonly PageProblem[];
  readonly bridges: readonly PageBridge[];
  /** The worst first, then by name. */
  readonly pods: readonly PagePod[];
  /** Of all, shown or not. */
  readonly interfaces: Readonly<Record<Health, number>>;
  /** How many interfaces are left out of {@link PageNode.pods}: the last. */
  readonly leftOut: number;
  /** Allocations of which no interface is attached. */
  readonly unattached: number;
  /** Absent on a node without an IPAM agent, and while it does not answer. */
  readonly addresses?: PageAddresses | undefined;
}

/** A pod with the chains of its interfaces. */
export interface PodChains extends Pick<PagePod, "namespace" | "name"> {
  readonly interfaces: readonly (Pick<PageInterface, "name" | "health"> & {
    /** Up to the first link that is broken; the links that depend on it are left out. */
    readonly chain: readonly Link[];
    /** What else is known, for people. */
    readonly facts: readonly (readonly [label: string, text: string])[];
  })[];
}

/** A node and the chains of its pods, by the pods' ids, at the node's `at`. */
export interface PageSnapshot {
  readonly node: PageNode;
  readonly chains: Readonly<Record<string, PodChains>>;
}
