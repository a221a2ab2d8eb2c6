import type { Link, LinkName } from "../diagnosis/link.ts";

// The JSON that the server sends to the page. Only types: the page's own code is bundled for browsers. Both are of one release, so
// the shape may change freely; scripts use the status socket. Control characters are
// escaped already (names/printable.ts); the page still treats every text as untrusted and never as markup.

/** `degraded`: a pod's program has something to do yet. Worst last. */
export const HEALTHS = ["healthy", "degraded", "broken"] as const;

export type Health = (typeof HEALTHS)[number];

/** A bridge of a switch. */
export interface PageBridge {
  /** Which switch and which bridge; {@link PageInterface.bridge} refers to it. */
  readonly id: string;
  readonly name: string;
  /** Name of the kind of switch; undefined where no pool uses it. */
  readonly kind?: string;
  readonly version?: string;
  /** Whether it can take ports; undefined where no pool uses it. */
  readonly ready?: boolean;
  readonly reason?: string;
  /** Interfaces that have a port on it. */
  readonly ports: number;
}

export interface PagePool {
  readonly name: string;
  readonly resource: string;
  /** Whether kubelet knows the resource. */
  readonly registered: boolean;
  readonly configured: boolean;
  readonly devices: number;
  readonly healthy: number;
  readonly inUse: number;
}

/** An interface of a pod with what the picture shows of it. */
export interface PageInterface {
  readonly name: string;
  readonly device: string;
  readonly health: Health;
  /** The first link of its chain that is not as it should be, and what was found there. */
  readonly broken?: Pick<Link, "name" | "what">;
  readonly network?: string;
  readonly bridge?: string;
  readonly socket: "there" | "missing" | "wrong" | "unknown";
  readonly portName?: string;
  /** Absent where the switch has none, or cannot be read. */
  readonly port?: {
    readonly link: "up" | "down";
    readonly connected: boolean;
    readonly failed: boolean;
    readonly queuePairs?: number;
    /** Both directions together; absent where the switch does not count. */
    readonly packets?: number;
    readonly dropped?: number;
  };
  /** Whether the switch's ports could be read. */
  readonly portKnown: boolean;
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
export interface PageNode {
  readonly node: string;
  readonly version: string;
  readonly startedAt: number;
  readonly at: number;
  readonly lastPassAt?: number;
  readonly health: Health;
  readonly problems: readonly { readonly what: string; readonly look: string }[];
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
export interface PageChain {
  readonly name: string;
  readonly device: string;
  readonly health: Health;
  /** Up to the first link that is broken; the links that depend on it are left out. */
  readonly chain: readonly Link[];
  /** Links that were not checked, in their order. */
  readonly beyond: readonly LinkName[];
  /** What else is known, for people. */
  readonly facts: readonly (readonly [label: string, text: string])[];
}

/** A pod with the chains of its interfaces. */
export interface PodChains {
  readonly id: string;
  readonly namespace: string;
  readonly name: string;
  readonly at: number;
  readonly interfaces: readonly PageChain[];
}
