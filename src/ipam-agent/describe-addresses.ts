// What the agent's status says of the node's pools, blocks and addresses. It changes nothing.
import * as z from "zod";
import type { AddressPool } from "../address-objects/address-pool.ts";
import { ADDRESS_POOLS } from "../address-objects/resources.ts";
import { formatAddress } from "../addresses/address.ts";
import { describeThrown } from "../failure/failure.ts";
import { present } from "../names/present.ts";
import type {
  InterfaceAddresses,
  LeakedAddresses,
  NodeAddresses,
  PoolAddresses,
} from "../status/addresses-shape.ts";
import { blocksOfSource, countsOfSource } from "./address-source.ts";
import type { Agent } from "./agent.ts";
import type { AgentContext } from "./agent-context.ts";
import type { HeldBlock } from "./held-block.ts";
import type { Allocation } from "./journal-entries.ts";
import { COOLDOWN_SECONDS } from "./network-config.ts";
import { listPodsOfNode } from "./pods-of-node.ts";

/** What the status is read from. */
export interface AddressesSource
  extends Pick<AgentContext, "node" | "api" | "hasNetns" | "ownPodUid" | "clock"> {
  readonly agent: Pick<Agent, "state" | "leaks">;
  /** Release that runs. */
  readonly version: string;
  readonly startedAt: number;
}

/** Entries of each list: more than a node usually has, in an answer of less than a megabyte. */
const LISTED = 1_000;

/**
 * Pools, blocks, leaked and resting addresses of the node; without the API server it lacks what only that knows.
 * @param signal bounds the requests to the API server
 */
export async function describeAddresses(
  source: AddressesSource,
  signal: AbortSignal,
): Promise<NodeAddresses> {
  const { node, version, startedAt, agent, clock } = source;
  const { state } = agent;
  const [statuses, leaks] = await Promise.all([
    readPoolStatuses(source, signal).catch(describeThrown),
    findLeaks(source, signal),
  ]);
  const ofCluster = typeof statuses === "string" ? undefined : statuses;
  const pools = [...state.pools.values()].map((pool) =>
    describePool(pool, source, ofCluster?.get(pool.name)),
  );
  const blocks = [...state.blocks.values()];
  const resting = blocks.flatMap((block) => restingOf(block, source));
  return {
    ...{ node, version, startedAt, at: clock.now(), confirmed: state.isConfirmed },
    apiProblem: typeof statuses === "string" ? statuses : undefined,
    survivors: state.identity.survivors?.length ?? 0,
    pools: pools.slice(0, LISTED),
    blocks: blocks.slice(0, LISTED).map(describeBlock),
    leaks: leaks.slice(0, LISTED),
    resting: resting.slice(0, LISTED),
    leftOut: {
      pools: leftOut(pools),
      blocks: leftOut(blocks),
      leaks: leftOut(leaks),
      resting: leftOut(resting),
    },
  };
}

/** What the interfaces of some allocations hold, and how many of these are left out. */
export function describeInterfaces(
  allocations: readonly Allocation[],
  source: Pick<AddressesSource, "agent" | "clock">,
): { readonly interfaces: InterfaceAddresses[]; readonly leftOut: number } {
  const interfaces = allocations.slice(0, LISTED).map((one) => describeInterface(one, source));
  return { interfaces, leftOut: leftOut(allocations) };
}

/** What one interface holds. */
export function describeInterface(
  { network, interfaceName, claim, containerId, netns, pod, addresses, startedAtMs, bootId }: Allocation,
  { agent, clock }: Pick<AddressesSource, "agent" | "clock">,
): InterfaceAddresses {
  const isOfThisBoot = bootId === agent.state.bootId;
  return present({
    ...{ pod, network, interface: interfaceName, claim, container: containerId, netns, addresses },
    createdAt: isOfThisBoot ? timeOf(startedAtMs, clock) : undefined,
  });
}

/** When an address may be handed out again; undefined where it may now. */
export function restsUntil(
  block: HeldBlock,
  value: bigint,
  { agent, clock }: Pick<AddressesSource, "agent" | "clock">,
): number | undefined {
  const cooldowns = [...agent.state.pools.values()]
    .filter(({ space, family }) => space === block.entry.space && family === block.prefix.family)
    .filter(({ usable }) => usable.has(value))
    .map(({ cooldownSeconds }) => cooldownSeconds);
  const seconds = cooldowns.length === 0 ? COOLDOWN_SECONDS : Math.max(...cooldowns);
  const restMs = block.restMs(value, clock.monotonic(), seconds * 1000);
  return restMs > 0 ? clock.now() + restMs : undefined;
}

function restingOf(block: HeldBlock, source: AddressesSource): NodeAddresses["resting"] {
  const { family } = block.prefix;
  return [...block.released].flatMap((value) => {
    const untilAt = block.holderOf(value) === undefined ? restsUntil(block, value, source) : undefined;
    const address = formatAddress({ family, value });
    return untilAt === undefined ? [] : [{ address, space: block.entry.space, untilAt }];
  });
}

function describeBlock({ name, entry, isUsable, used }: HeldBlock): NodeAddresses["blocks"][number] {
  const state = entry.state === "bound" && !isUsable ? ("suspended" as const) : entry.state;
  return present({ name, cidr: entry.cidr, pool: entry.pool, state, used });
}

const countSchema = z.number().nonnegative();
/** What the controller writes of a pool; a status of another shape says nothing. */
const poolStatusSchema = z.looseObject({
  total: countSchema,
  used: countSchema,
  free: countSchema,
  blocks: countSchema,
  conditions: z.array(z.looseObject({ type: z.string(), status: z.string(), message: z.string() })),
});
type PoolStatus = z.infer<typeof poolStatusSchema>;

/** By pool. @throws ApiFailure */
async function readPoolStatuses(
  { api }: AddressesSource,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, PoolStatus>> {
  const { objects } = await api.list(ADDRESS_POOLS, {}, signal);
  const found = objects.flatMap(({ metadata, status }) => {
    const { data } = poolStatusSchema.safeParse(status);
    return data === undefined ? [] : [[metadata.name, data] as const];
  });
  return new Map(found);
}

function describePool(
  pool: AddressPool,
  { agent: { state }, clock }: AddressesSource,
  status: PoolStatus | undefined,
): PoolAddresses {
  const { name, space, mode } = pool;
  const source = { ...pool, key: `pool ${name}`, pool: name };
  const { free, used, resting } = countsOfSource(source, state, clock.monotonic());
  const isFull = (type: string) =>
    status?.conditions.find((one) => one.type === type && one.status === "True");
  const [exhausted, full] = [isFull("Exhausted"), isFull("NearlyFull")];
  const message = (exhausted ?? full)?.message;
  return present({
    ...{ name, space, mode },
    node: { blocks: blocksOfSource(source, state).length, used, free, resting },
    cluster: status && {
      ...{ total: status.total, used: status.used, free: status.free, blocks: status.blocks },
    },
    warning: message === undefined ? undefined : { exhausted: exhausted !== undefined, message },
  });
}

/** Allocations whose network namespace or pod is gone, with why they are kept. */
async function findLeaks(source: AddressesSource, signal: AbortSignal): Promise<readonly LeakedAddresses[]> {
  const { agent, hasNetns, clock } = source;
  const { state, leaks } = agent;
  const before = [...state.allocations];
  if (before.length === 0) return [];
  // After the allocations were read: each of their pods was there before its allocation.
  const pods = await listPodsOfNode(source, signal).then(
    (list) => new Set(list.map(({ uid }) => uid)),
    describeThrown,
  );
  const found: LeakedAddresses[] = [];
  for (const [key, allocation] of before) {
    const netns = await hasNetns(allocation.netns).catch(describeThrown);
    // Released meanwhile.
    if (state.allocations.get(key) !== allocation) continue;
    const held = whyHeld(netns, podOf(allocation, pods, leaks));
    if (held === undefined) continue;
    const goneSinceMs = netns === false ? leaks.goneSinceMs(allocation) : undefined;
    const goneAt = goneSinceMs === undefined ? undefined : timeOf(goneSinceMs, clock);
    found.push(present({ ...describeInterface(allocation, source), ...held, goneAt }));
  }
  return found;
}

type PodLook = "there" | "gone" | "unnamed" | { readonly reason: string };

function podOf(allocation: Allocation, pods: ReadonlySet<string> | string, leaks: Agent["leaks"]): PodLook {
  if (allocation.pod === undefined) return "unnamed";
  if (leaks.isSuperseded(allocation)) return "gone";
  if (typeof pods === "string") return { reason: pods };
  return pods.has(allocation.pod.uid) ? "there" : "gone";
}

/** @param netns whether it is there, or why that is not known */
function whyHeld(netns: boolean | string, pod: PodLook): Pick<LeakedAddresses, "why" | "reason"> | undefined {
  if (netns !== false) {
    if (pod !== "gone") return undefined;
    return netns === true ? { why: "netns-there" } : { why: "netns-unknown", reason: netns };
  }
  if (typeof pod === "object") return { why: "pod-unknown", reason: pod.reason };
  return { why: ({ gone: "seen-once", there: "pod-there", unnamed: "pod-unnamed" } as const)[pod] };
}

function leftOut({ length }: readonly unknown[]): number {
  return Math.max(0, length - LISTED);
}

/** The time of day of a moment of the monotonic clock. */
function timeOf(monotonicMs: number, clock: AddressesSource["clock"]): number {
  return clock.now() - (clock.monotonic() - monotonicMs);
}
