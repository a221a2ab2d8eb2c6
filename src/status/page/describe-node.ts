import { createHash } from "node:crypto";
import { printable } from "../../names/printable.ts";
import { mapInChunks } from "../../sync/map-in-chunks.ts";
import { brokenLink } from "../diagnosis/chain.ts";
import type { Link } from "../diagnosis/link.ts";
import { findProblems, type Problem } from "../diagnosis/problems.ts";
import type { AddressesReading } from "../read-addresses.ts";
import type { InterfaceStatus, NodeStatus } from "../shape.ts";
import { interfaceWords } from "../words.ts";
import { describeAddresses, problemsOfAddresses } from "./describe-addresses.ts";
import {
  HEALTHS,
  type Health,
  type PageBridge,
  type PageInterface,
  type PageNode,
  type PagePod,
  type PageProblem,
} from "./page-shape.ts";

/** More could neither be read by a person nor drawn in reasonable time. */
const MAX_INTERFACES = 1_000;
const MAX_PROBLEMS = 100;
/** Interfaces before other work may run. */
const CHUNK = 100;

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

/** Describes a node for the page, in chunks between which other work may run. */
export async function describeNode(status: NodeStatus, addresses?: AddressesReading): Promise<DescribedNode> {
  const { node, version, startedAt, at, lastPassAt, pools, hugepages, allocations } = status;
  const kinds = new Map(pools.map((pool) => [pool.name, pool.switch.kind]));
  const linked = await mapInChunks(status.interfaces, CHUNK, (one) => [one, brokenLink(one, at)] as const);
  const links = new Map(linked);
  const interfaces = { healthy: 0, degraded: 0, broken: 0 };
  for (const link of links.values()) interfaces[healthOf(link)] += 1;
  const problems = [...findProblems(status, (one) => links.get(one)), ...problemsOfAddresses(addresses)];
  const byPod = Map.groupBy(status.interfaces, ({ pod: { namespace, name } }) => `${namespace}/${name}`);
  // By code units: a locale's order takes far longer, and depends on the machine.
  const sorted = [...byPod].sort(([one], [other]) => (one < other ? -1 : 1));
  const all = await mapInChunks(sorted, CHUNK, ([, own]): PagePod => {
    const { namespace = "", name = "" } = own[0]?.pod ?? {};
    const views = own.map((one) => describe(one, links.get(one), kinds));
    const health = HEALTHS.findLast((each) => views.some((view) => view.health === each)) ?? "healthy";
    return { id: podId({ namespace, name }), namespace, name, health, interfaces: views };
  });
  const shown = bounded(all);
  const attached = new Set(status.interfaces.map(({ allocation }) => allocation));
  const view = printable<Omit<PageNode, "pods">>({
    ...{ node, version, startedAt, at, lastPassAt, pools, hugepages, interfaces },
    health: problems.length > 0 ? "broken" : interfaces.degraded > 0 ? "degraded" : "healthy",
    problems: boundedProblems(problems),
    bridges: bridgesOf(status, kinds),
    leftOut: shown.reduce((left, pod) => left - pod.interfaces.length, links.size),
    addresses: describeAddresses(addresses),
    unattached: allocations.filter(({ id }) => !attached.has(id)).length,
  });
  const pods = await mapInChunks(shown, CHUNK, (pod) => printable(pod));
  return { view: { ...view, pods }, pods: new Map(shown.map((pod) => [pod.id, pod])) };
}

function boundedProblems(problems: readonly Problem[]): readonly PageProblem[] {
  const shown = problems
    .slice(0, MAX_PROBLEMS)
    .map(({ pod, ...one }) => ({ ...one, pod: pod && podId(pod) }));
  const more = problems.length - shown.length;
  return more === 0 ? shown : [...shown, { what: `${more} more`, look: "vhostuserctl status" }];
}

/** Pools' kinds of switches, by the pool's name. */
type Kinds = ReadonlyMap<string, string>;

function describe(one: InterfaceStatus, link: Link | undefined, kinds: Kinds): PageInterface {
  const { port, portUnknown, places, device, network, mac, vlan, addresses, portName } = one;
  return {
    ...{ device, network, mac, vlan, addresses, portName, port, portUnknown },
    name: interfaceWords(one),
    health: healthOf(link),
    broken: link && { name: link.name, what: link.what },
    bridge: one.bridge && bridgeId(kinds.get(one.pool), one.bridge),
    socket: places?.socket.kind ?? "unknown",
  };
}

/** The worst first, as many as have no more than {@link MAX_INTERFACES}. */
function bounded(pods: readonly PagePod[]): PagePod[] {
  const rank = ({ health }: PagePod) => HEALTHS.indexOf(health);
  let left = MAX_INTERFACES;
  return pods
    .toSorted((one, other) => rank(other) - rank(one))
    .filter(({ interfaces: { length } }) => {
      const fits = length <= left;
      if (fits) left -= length;
      return fits;
    });
}

/** The bridges of the pools, and others that interfaces are on. */
function bridgesOf({ pools, interfaces }: NodeStatus, kinds: Kinds): PageBridge[] {
  const bridges = new Map<string, PageBridge>();
  for (const { bridge: name, switch: of } of pools) {
    const id = bridgeId(of.kind, name);
    // Of two pools the one that is not ready has more to say.
    if (bridges.get(id)?.ready !== false) bridges.set(id, { ...of, id, name, ports: 0 });
  }
  for (const { bridge: name, pool, port } of interfaces) {
    if (name === undefined) continue;
    const kind = kinds.get(pool) ?? "switch";
    const id = bridgeId(kind, name);
    const known = bridges.get(id) ?? { id, name, kind, ports: 0 };
    bridges.set(id, { ...known, ports: known.ports + (port === undefined ? 0 : 1) });
  }
  return [...bridges.values()];
}

function bridgeId(kind: string | undefined, name: string): string {
  return `${kind ?? "switch"}/${name}`;
}
