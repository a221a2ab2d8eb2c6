import type { LeakedAddresses, NodeAddresses, PoolAddresses } from "./addresses-shape.ts";
import { age, plural } from "./words.ts";

// Words about addresses that the status page and vhostuserctl share.

const WHY: Readonly<Record<LeakedAddresses["why"], string>> = {
  "seen-once":
    "its network namespace is gone, and its pod is gone or has a newer sandbox: it is released once two checks a minute apart have found that",
  "pod-there":
    "its network namespace is gone, but its pod still exists: it is released when the pod is deleted or has a newer sandbox",
  "pod-unknown": "its network namespace is gone, and the API server cannot be asked for its pod",
  "pod-unnamed":
    "its network namespace is gone, but the runtime did not name its pod: only DEL or GC of the runtime releases it",
  "netns-there":
    "its pod is gone or has a newer sandbox, but its network namespace still exists: it is released when the runtime has deleted the sandbox",
  "netns-unknown": "its pod is gone or has a newer sandbox, and its network namespace cannot be looked for",
};

/** `1 address`, `2 addresses`. */
export function addressCount(count: number): string {
  return `${count} ${count === 1 ? "address" : "addresses"}`;
}

/** Why a leaked address is still held. */
export function leakWords({ why, reason }: LeakedAddresses): string {
  return reason === undefined ? WHY[why] : `${WHY[why]}: ${reason}`;
}

/** Which interface a leaked address belongs to. */
export function leakTitle({ pod, interface: name, container, addresses }: LeakedAddresses): string {
  const holder = pod === undefined ? `container ${container}` : `${pod.namespace}/${pod.name}`;
  return `${holder}, ${name}: ${addresses.map(({ address }) => address).join(", ")}`;
}

/** How full a pool is in the cluster; undefined where that is not known. */
export function clusterWords({ cluster }: PoolAddresses): string | undefined {
  if (cluster === undefined) return undefined;
  const { total, used } = cluster;
  return `${used} of ${total}${total === 0 ? "" : ` (${Math.floor((used / total) * 100)}%)`}`;
}

/** Something that is wrong with the addresses of a node, and what to do about it; a warning does no harm yet. */
export interface AddressProblem {
  readonly verdict: "problem" | "warning";
  readonly what: string;
  readonly cure: string;
}

/** What is wrong with the addresses of a node, but for leaks. */
export function addressProblems(addresses: NodeAddresses): readonly AddressProblem[] {
  const { confirmed, apiProblem, survivors, pools, blocks } = addresses;
  const found: AddressProblem[] = [];
  if (!confirmed) {
    found.push({
      verdict: "problem",
      what: "the API server has not confirmed this node's blocks since it was booted: no address is handed out",
      cure: "the agent keeps trying; its log says why it cannot",
    });
  }
  if (apiProblem !== undefined) {
    found.push({
      verdict: "problem",
      what: `the API server cannot be asked: ${apiProblem}`,
      cure: "addresses are handed out until this node's blocks are used up; check the API server and the rights of the agent's ServiceAccount",
    });
  }
  if (survivors > 0) {
    const pods = `${plural(survivors, "pod")} of that time ${survivors === 1 ? "is" : "are"} gone`;
    found.push({
      verdict: "warning",
      what: `the agent's journal was lost: the blocks that were in it are not used until ${pods}`,
      cure: "delete or move these pods to use the blocks sooner",
    });
  }
  for (const { name, used } of blocks.filter(({ state }) => state === "lost")) {
    found.push({
      verdict: "problem",
      what: `block ${name} is not this node's any more, and ${addressCount(used)} of it ${used === 1 ? "is" : "are"} in use`,
      cure: `delete the pods with these addresses, so that they get others; kubectl get addressblock ${name} -o yaml shows its owner`,
    });
  }
  for (const { name, warning } of pools) {
    if (warning === undefined) continue;
    const verdict = warning.exhausted ? "problem" : "warning";
    const cure = "add a subnet or a range to the pool, or delete pods";
    found.push({ verdict, what: `pool ${name}: ${warning.message}`, cure });
  }
  return found;
}

/** What rests after its release; undefined where nothing does. */
export function restingWords({ resting, leftOut, at }: NodeAddresses): string | undefined {
  const count = resting.length + leftOut.resting;
  if (count === 0) return undefined;
  const last = Math.max(...resting.map(({ untilAt }) => untilAt));
  const left = age(last - at);
  return count === 1
    ? `1 address rests after its release for ${left}`
    : `${addressCount(count)} rest after their release, the last for ${left}`;
}
