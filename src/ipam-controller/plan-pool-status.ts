import { boundedCount, type Condition, type PoolStatus } from "../address-objects/address-pool.ts";
import { formatRange } from "../addresses/subnet.ts";
import { present } from "../names/present.ts";
import type { PoolEntry } from "./cluster-view.ts";
import type { PoolCounts } from "./count-pools.ts";
import type { ImportFinding } from "./whereabouts/finding.ts";

/** What a pool's status is made from. */
export interface PoolFacts {
  readonly entry: PoolEntry;
  /** Undefined where the pool cannot be used. */
  readonly counts: PoolCounts | undefined;
  readonly hasSpace: boolean;
  /** What a pool that is being deleted still has. */
  readonly heldBy?: string | undefined;
  /** Pools of the same space that have addresses of this one. */
  readonly overlaps: readonly string[];
  /** A node's network of pods that has addresses of this pool. */
  readonly podCidr?: string | undefined;
  /** Of a pool with addresses of whereabouts; undefined before the first look, `off` where they are not imported. */
  readonly importing?: ImportFinding | "off" | undefined;
}

/** A condition as it should be; when it became so is added to it. */
type Finding = Pick<Condition, "type" | "status" | "reason" | "message">;

/** A pool is nearly full from this part of its addresses or blocks on, in percent. */
const NEARLY_FULL_PERCENT = 80;
/** Names in a message. */
const MAX_NAMES = 10;
/** As many as the object's definition allows. */
const MAX_RANGES = 1_000;
const NOTHING: PoolCounts = { total: 0n, inBlocks: 0, used: 0, blocks: 0, fullNodes: 0 };

/**
 * The status that a pool should have. A condition that does not change keeps its time.
 * @param now RFC 3339
 */
export function planPoolStatus(facts: PoolFacts, now: string): PoolStatus {
  const { entry, counts = NOTHING } = facts;
  const { total, inBlocks, used, blocks } = counts;
  const known = conditionsOf(entry.status);
  const generation = entry.generation === undefined ? {} : { observedGeneration: entry.generation };
  return {
    total: boundedCount(total),
    free: boundedCount(total - BigInt(used)),
    ...{ inBlocks, used, blocks },
    ...importedOf(facts),
    conditions: findingsOf(facts).map((finding) => {
      const before = known.find(({ type }) => type === finding.type);
      const isSame = before?.status === finding.status && before.lastTransitionTime !== undefined;
      return {
        ...finding,
        lastTransitionTime: isSame ? before.lastTransitionTime : now,
        ...generation,
      };
    }),
  };
}

/** The conditions of a status as the API server has it. */
export function conditionsOf(status: unknown): readonly Condition[] {
  const { conditions } = (status ?? {}) as { readonly conditions?: unknown };
  return Array.isArray(conditions) ? conditions : [];
}

function findingsOf(facts: PoolFacts): readonly Finding[] {
  const { entry, counts, hasSpace, heldBy } = facts;
  const { pool } = entry;
  if (entry.guard.isDeleting)
    return notReady(
      "Deleting",
      `It is being deleted, and hands out no addresses. It waits until nothing names it (${heldBy ?? "nothing does"})`,
    );
  if (typeof pool === "string") return notReady("Invalid", pool);
  if (!hasSpace)
    return notReady(
      "SpaceMissing",
      `The AddressSpace ${pool.space} does not exist or is invalid: create or correct it`,
    );
  if (pool.whereabouts !== undefined && counts?.total === 0n) {
    const message = "No address is imported from whereabouts yet: the condition Imported says why";
    return [...notReady("NotImported", message), imported(facts)];
  }
  if (counts === undefined || counts.total === 0n)
    return notReady(
      "NoAddresses",
      "The subnets have no address that can be handed out: change their ranges or exclude",
    );
  return [
    { type: "Ready", status: "True", reason: "Valid", message: "" },
    nearlyFull(counts, pool.mode),
    exhausted(counts, pool.mode),
    overlapping(facts),
    ...(pool.whereabouts === undefined ? [] : [imported(facts)]),
  ];
}

function overlapping({ overlaps, podCidr }: PoolFacts): Finding {
  const type = "Overlapping";
  if (podCidr !== undefined) {
    const message = `The cluster's own pods have addresses of it, on a node with podCIDR ${podCidr}: use others, unless the two networks never meet`;
    return { type, status: "True", reason: "SharesPodNetwork", message };
  }
  if (overlaps.length === 0) return { type, status: "False", reason: "NoOverlap", message: "" };
  const names = overlaps.slice(0, MAX_NAMES).join(", ");
  const others = overlaps.length > MAX_NAMES ? ` and ${overlaps.length - MAX_NAMES} others` : "";
  const message = `It shares addresses with ${names}${others}. Each address is handed out once`;
  return { type, status: "True", reason: "SharesAddresses", message };
}

function imported({ importing }: PoolFacts): Finding {
  const type = "Imported";
  const no = (reason: string, message: string): Finding => ({ type, status: "False", reason, message });
  if (importing === "off")
    return no(
      "NotEnabled",
      "The controller does not import from whereabouts: set ipam.whereabouts.enabled in the chart",
    );
  const { problem, waiting, left } = importing ?? {};
  if (problem !== undefined) return no(problem.reason, problem.message);
  if (waiting === undefined || waiting > 0n)
    return no("Importing", "Addresses are imported after two looks that are a minute apart");
  const pods = left === 0 ? "Pods have no address" : `Pods still have ${left} addresses`;
  return { type, status: "True", reason: "AllImported", message: `${pods} of whereabouts` };
}

/** What is imported only grows: agents may have handed it out. */
function importedOf({ entry: { pool, status }, importing }: PoolFacts): Pick<PoolStatus, "whereabouts"> {
  if (typeof pool === "string" || pool.whereabouts === undefined) return {};
  const { family } = pool;
  const finding = importing === "off" ? undefined : importing;
  const known = pool.whereabouts.imported;
  const { ranges } = finding === undefined ? known : known.plus(finding.imported);
  const texts = ranges.slice(0, MAX_RANGES).map((range) => formatRange({ family, ...range }));
  const before = (status as Partial<PoolStatus> | undefined)?.whereabouts?.left;
  return { whereabouts: { imported: texts, ...present({ left: finding?.left ?? before }) } };
}

function notReady(reason: string, message: string): readonly Finding[] {
  const unknown = (type: Finding["type"]): Finding => ({ type, status: "Unknown", reason, message: "" });
  const ready: Finding = { type: "Ready", status: "False", reason, message };
  return [ready, unknown("NearlyFull"), unknown("Exhausted"), unknown("Overlapping")];
}

type Mode = "NodeBlocks" | "PerAddress";

function nearlyFull({ total, used, inBlocks }: PoolCounts, mode: Mode): Finding {
  const isMany = (count: number) => BigInt(count) * 100n >= total * BigInt(NEARLY_FULL_PERCENT);
  const type = "NearlyFull";
  if (isMany(used)) {
    const message = `${used} of ${total} addresses are used: add a subnet or a range`;
    return { type, status: "True", reason: "FewAddressesLeft", message };
  }
  if (mode === "NodeBlocks" && isMany(inBlocks)) {
    const message = `${inBlocks} of ${total} addresses are in nodes' blocks, ${used} of them are used: add a subnet or a range`;
    return { type, status: "True", reason: "FewBlocksLeft", message };
  }
  return { type, status: "False", reason: "EnoughLeft", message: "" };
}

function exhausted({ total, used, inBlocks, fullNodes }: PoolCounts, mode: Mode): Finding {
  const type = "Exhausted";
  if (BigInt(used) >= total) {
    const message = `All ${total} addresses are used: add a subnet or a range`;
    return { type, status: "True", reason: "NoAddressLeft", message };
  }
  if (mode === "NodeBlocks" && BigInt(inBlocks) >= total && fullNodes > 0) {
    const free = total - BigInt(used);
    const message = `No block is left for ${fullNodes} nodes whose blocks are full; ${free} addresses are free in blocks of other nodes: add a subnet or a range`;
    return { type, status: "True", reason: "NoBlockLeft", message };
  }
  return { type, status: "False", reason: "EnoughLeft", message: "" };
}
