import { createHash } from "node:crypto";
import { printable } from "../../names/printable.ts";
import { mapInChunks } from "../../sync/map-in-chunks.ts";
import { brokenLink } from "../diagnosis/chain.ts";
import type { Link } from "../diagnosis/link.ts";
import { findProblems, type Problem } from "../diagnosis/problems.ts";
import type { InterfaceStatus, NodeStatus } from "../shape.ts";
import {
  HEALTHS,
  type Health,
  type PageBridge,
  type PageInterface,
  type PageNode,
  type PagePod,
} from "./page-shape.ts";

/** More could neither be read by a person nor drawn in reasonable time. */
const MAX_INTERFACES = 1_000;
const MAX_PROBLEMS = 100;
/** Interfaces before other work may run. */
const CHUNK = 100;
/** Time for CNI ADD to come after Allocate; the pod's other networks may be attached before. */
const STARTING_MS = 30_000;

/** A pod as the status names it. */
export type PodName = Pick<InterfaceStatus["pod"], "namespace" | "name">;

/** A pod's id in URLs: names may hold any character, and would stay in a browser's history. */
export function podId({ namespace, name }: PodName): string {
  return createHash("sha256").update(`${namespace}\0${name}`).digest("hex").slice(0, 16);
}

/** How an interface is by the first link of its chain that is not as it should be. */
export function healthOf(broken: Pick<Link, "verdict"> | undefined): Health {
  if (broken === undefined) return "healthy";
  return broken.verdict === "broken" ? "broken" : "degraded";
}

/** What the page shows of a node, and the pods' real names by their ids. */
export interface DescribedNode {
  readonly view: PageNode;
  readonly pods: ReadonlyMap<string, PodName>;
}

/** The first broken link of each interface; undefined where no link is broken. */
type BrokenLinks = ReadonlyMap<InterfaceStatus, Link | undefined>;

/** Describes a node for the page, in chunks between which other work may run. */
export async function describeNode(status: NodeStatus): Promise<DescribedNode> {
  const { node, version, startedAt, at, lastPassAt, allocations } = status;
  const links = await mapInChunks(status.interfaces, CHUNK, (one) => [one, linkOf(one, at)] as const);
  const broken: BrokenLinks = new Map(links);
  const interfaces = { healthy: 0, degraded: 0, broken: 0 };
  for (const [, link] of links) interfaces[healthOf(link)] += 1;
  const problems = findProblems(status, (one) => broken.get(one));
  const { shown, leftOut } = bounded(podsOf(status, broken));
  const kinds = new Map(status.pools.map((pool) => [pool.name, pool.switch.kind]));
  const pods = await mapInChunks(shown, CHUNK, ({ pod: { namespace, name }, health, own }) => {
    const views = own.map((one) => describe(one, broken.get(one), kinds.get(one.pool)));
    return printable<PagePod>({ id: podId({ namespace, name }), namespace, name, health, interfaces: views });
  });
  const attached = new Set(status.interfaces.map(({ allocation }) => allocation));
  const view = printable<Omit<PageNode, "pods">>({
    ...{ node, version, startedAt, at, lastPassAt, interfaces, leftOut },
    health: problems.length > 0 ? "broken" : interfaces.degraded > 0 ? "degraded" : "healthy",
    problems: boundedProblems(problems),
    bridges: bridgesOf(status, kinds),
    pools: status.pools.map(({ name, resource, registered, configured, devices, healthy, inUse }) => ({
      ...{ name, resource, registered, configured, devices, healthy, inUse },
    })),
    unattached: allocations.filter(({ id }) => !attached.has(id)).length,
  });
  return { view: { ...view, pods }, pods: new Map(shown.map(({ pod }) => [podId(pod), pod])) };
}

/** A pod that is just being made waits; nothing of it is broken yet. */
function linkOf(one: InterfaceStatus, at: number): Link | undefined {
  const link = brokenLink(one);
  const isStarting = one.state === "allocated" && at - one.createdAt < STARTING_MS;
  return link?.name === "record" && isStarting ? { ...link, verdict: "waiting" } : link;
}

function boundedProblems(problems: readonly Problem[]): readonly Problem[] {
  const more = problems.length - MAX_PROBLEMS;
  if (more <= 0) return problems;
  return [...problems.slice(0, MAX_PROBLEMS), { what: `${more} more`, look: "vhostuserctl status" }];
}

/** A pod of the node before it is known whether it is shown. */
interface PodStatus {
  /** By which they are sorted. */
  readonly key: string;
  readonly pod: PodName;
  readonly health: Health;
  readonly own: readonly InterfaceStatus[];
}

function podsOf({ interfaces }: NodeStatus, broken: BrokenLinks): PodStatus[] {
  const byPod = Map.groupBy(interfaces, ({ pod: { namespace, name } }) => `${namespace}/${name}`);
  return [...byPod].flatMap(([key, own]) => {
    const healths = new Set(own.map((one) => healthOf(broken.get(one))));
    const health = HEALTHS.findLast((each) => healths.has(each)) ?? "healthy";
    return own.slice(0, 1).map(({ pod }) => ({ key, pod, health, own }));
  });
}

function describe(one: InterfaceStatus, link: Link | undefined, kind: string | undefined): PageInterface {
  const { port, places, device, name = device, network, portName, bridge } = one;
  const { fromGuest, toGuest } = port?.traffic ?? {};
  return {
    ...{ name, device, network, portName },
    health: healthOf(link),
    broken: link && { name: link.name, what: link.what },
    bridge: bridge && bridgeId(kind, bridge),
    socket: socketOf(places?.socket.kind),
    port: port && {
      ...{ link: port.link, connected: port.connected, queuePairs: port.queuePairs },
      failed: port.error !== undefined,
      packets: fromGuest && toGuest && fromGuest.packets + toGuest.packets,
      dropped: fromGuest && toGuest && fromGuest.dropped + toGuest.dropped,
    },
    portKnown: one.portUnknown === undefined,
  };
}

function socketOf(kind: NonNullable<InterfaceStatus["places"]>["socket"]["kind"] | undefined) {
  switch (kind) {
    case "socket":
      return "there";
    case "missing":
      return "missing";
    case "unknown":
    case undefined:
      return "unknown";
    default:
      return "wrong";
  }
}

/** The worst pods, as many as have no more than {@link MAX_INTERFACES}, in the order of their names. */
function bounded(pods: readonly PodStatus[]): { readonly shown: PodStatus[]; readonly leftOut: number } {
  const rank = ({ health }: PodStatus) => HEALTHS.indexOf(health);
  const worstFirst = pods.toSorted((one, other) => rank(other) - rank(one) || inOrder(one, other));
  const shown: PodStatus[] = [];
  let [count, leftOut] = [0, 0];
  for (const pod of worstFirst) {
    const { length } = pod.own;
    if (count + length > MAX_INTERFACES) leftOut += length;
    else {
      count += length;
      shown.push(pod);
    }
  }
  return { shown: shown.sort(inOrder), leftOut };
}

/** By code units: a locale's order takes far longer, and depends on the machine. */
function inOrder({ key: one }: PodStatus, { key: other }: PodStatus): number {
  return one < other ? -1 : 1;
}

/** The bridges of the pools, and others that interfaces are on. */
function bridgesOf({ pools, interfaces }: NodeStatus, kinds: ReadonlyMap<string, string>): PageBridge[] {
  const bridges = new Map<string, PageBridge>();
  for (const { bridge: name, switch: of } of pools) {
    const { kind, ready, version, reason } = of;
    const id = bridgeId(kind, name);
    // Of two pools the one that is not ready has more to say.
    if (bridges.get(id)?.ready !== false)
      bridges.set(id, { id, name, kind, ready, version, reason, ports: 0 });
  }
  for (const { bridge: name, pool, port } of interfaces) {
    if (name === undefined) continue;
    const kind = kinds.get(pool);
    const id = bridgeId(kind, name);
    const known = bridges.get(id) ?? { id, name, kind, ports: 0 };
    bridges.set(id, { ...known, ports: known.ports + (port === undefined ? 0 : 1) });
  }
  return [...bridges.values()];
}

function bridgeId(kind: string | undefined, name: string): string {
  return `${kind ?? "unknown"}/${name}`;
}
