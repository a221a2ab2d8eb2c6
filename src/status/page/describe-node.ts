import { createHash } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { printable } from "../../names/printable.ts";
import { brokenLink } from "../diagnosis/chain.ts";
import type { Link } from "../diagnosis/link.ts";
import { findProblems } from "../diagnosis/problems.ts";
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
const AT_ONCE = 100;

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

/** Time for CNI ADD to come after Allocate; a pod's other networks may take theirs before. */
const STARTING_MS = 30_000;

/** A pod that is just being made waits; nothing of it is broken yet. */
function graceNewPods(one: InterfaceStatus, link: Link | undefined, at: number): Link | undefined {
  const isStarting = one.state === "allocated" && at - one.createdAt < STARTING_MS;
  return link?.name === "record" && isStarting ? { ...link, verdict: "waiting" } : link;
}

/** Describes a node for the page; other work may run in between. */
export async function describeNode(status: NodeStatus): Promise<DescribedNode> {
  const broken = new Map<InterfaceStatus, Link | undefined>();
  for (const [index, one] of status.interfaces.entries()) {
    if (index > 0 && index % AT_ONCE === 0) await nextTurn();
    broken.set(one, graceNewPods(one, brokenLink(one), status.at));
  }
  const count = (health: Health) => [...broken.values()].filter((link) => healthOf(link) === health).length;
  const interfaces = { healthy: count("healthy"), degraded: count("degraded"), broken: count("broken") };
  const problems = findProblems(status, (one) => broken.get(one));
  const worst = problems.length > 0 ? "broken" : interfaces.degraded > 0 ? "degraded" : "healthy";
  await nextTurn();
  const { shown, leftOut } = bounded(podsOf(status, broken));
  await nextTurn();
  const kinds = new Map(status.pools.map((pool) => [pool.name, pool.switch.kind]));
  const pods: PagePod[] = [];
  for (const [index, { pod, health, own }] of shown.entries()) {
    if (index > 0 && index % AT_ONCE === 0) await nextTurn();
    const views = own.map((one) => describe(one, broken.get(one), kinds.get(one.pool)));
    const { namespace, name } = pod;
    pods.push(printable<PagePod>({ id: podId(pod), namespace, name, health, interfaces: views }));
  }
  const attached = new Set(status.interfaces.flatMap(({ allocation }) => allocation ?? []));
  const view = printable<Omit<PageNode, "pods">>({
    node: status.node,
    version: status.version,
    startedAt: status.startedAt,
    at: status.at,
    ...(status.lastPassAt === undefined ? {} : { lastPassAt: status.lastPassAt }),
    health: worst,
    problems:
      problems.length <= MAX_PROBLEMS
        ? problems
        : [
            ...problems.slice(0, MAX_PROBLEMS),
            { what: `${problems.length - MAX_PROBLEMS} more`, look: "vhostuserctl status" },
          ],
    bridges: bridgesOf(status),
    pools: status.pools.map(({ name, resource, registered, configured, devices, healthy, inUse }) => ({
      ...{ name, resource, registered, configured, devices, healthy, inUse },
    })),
    interfaces,
    leftOut,
    unattached: status.allocations.filter(({ id }) => !attached.has(id)).length,
  });
  return {
    view: { ...view, pods },
    pods: new Map(shown.map(({ pod }) => [podId(pod), pod])),
  };
}

/** A pod of the node before it is known whether it is shown. */
interface PodStatus {
  /** By which they are sorted. */
  readonly key: string;
  readonly pod: PodName;
  readonly health: Health;
  readonly own: readonly InterfaceStatus[];
}

function podsOf(
  { interfaces }: NodeStatus,
  broken: ReadonlyMap<InterfaceStatus, Link | undefined>,
): PodStatus[] {
  const byPod = Map.groupBy(interfaces, ({ pod: { namespace, name } }) => `${namespace}/${name}`);
  return [...byPod].flatMap(([key, own]) => {
    const [first] = own;
    const healths = new Set(own.map((one) => healthOf(broken.get(one))));
    const health = HEALTHS.findLast((each) => healths.has(each)) ?? "healthy";
    return first === undefined ? [] : [{ key, pod: first.pod, health, own }];
  });
}

function describe(one: InterfaceStatus, broken: Link | undefined, kind: string | undefined): PageInterface {
  const { port, places, name, device, network, portName, bridge } = one;
  const traffic = port?.traffic;
  return {
    name: name ?? device,
    device,
    health: healthOf(broken),
    ...(broken === undefined ? {} : { broken: { name: broken.name, what: broken.what } }),
    ...(network === undefined ? {} : { network }),
    ...(bridge === undefined ? {} : { bridge: bridgeId(kind, bridge) }),
    ...(portName === undefined ? {} : { portName }),
    socket: socketOf(places?.socket.kind),
    ...(port === undefined
      ? {}
      : {
          port: {
            link: port.link,
            connected: port.connected,
            failed: port.error !== undefined,
            ...(port.queuePairs === undefined ? {} : { queuePairs: port.queuePairs }),
            ...(traffic === undefined
              ? {}
              : {
                  packets: traffic.fromGuest.packets + traffic.toGuest.packets,
                  dropped: traffic.fromGuest.dropped + traffic.toGuest.dropped,
                }),
          },
        }),
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
  let drawn = 0;
  let leftOut = 0;
  for (const pod of worstFirst) {
    const { length } = pod.own;
    if (drawn + length > MAX_INTERFACES) leftOut += length;
    else {
      drawn += length;
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
function bridgesOf({ pools, interfaces }: NodeStatus): PageBridge[] {
  const kinds = new Map(pools.map((pool) => [pool.name, pool.switch.kind]));
  const bridges = new Map<string, Omit<PageBridge, "ports">>();
  for (const { bridge: name, switch: of } of pools) {
    const { kind, ready, version, reason } = of;
    const id = bridgeId(kind, name);
    // Of two pools the one that is not ready has more to say.
    if (bridges.get(id)?.ready === false) continue;
    bridges.set(id, {
      ...{ id, name, kind, ready },
      ...(version === undefined ? {} : { version }),
      ...(reason === undefined ? {} : { reason }),
    });
  }
  const ports = new Map<string, number>();
  for (const { bridge: name, pool, port } of interfaces) {
    if (name === undefined) continue;
    const kind = kinds.get(pool);
    const id = bridgeId(kind, name);
    if (!bridges.has(id)) bridges.set(id, { id, name, ...(kind === undefined ? {} : { kind }) });
    if (port !== undefined) ports.set(id, (ports.get(id) ?? 0) + 1);
  }
  return [...bridges.values()].map((bridge) => ({ ...bridge, ports: ports.get(bridge.id) ?? 0 }));
}

function bridgeId(kind: string | undefined, name: string): string {
  return `${kind ?? "unknown"}/${name}`;
}
