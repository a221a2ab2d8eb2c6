import type { LeakedAddresses, NodeAddresses, PoolAddresses } from "./addresses-shape.ts";
import { age, plural } from "./words.ts";

// Words about addresses that the status page and vhostuserctl share.

const WHY: Readonly<Record<LeakedAddresses["why"], string>> = {
  "seen-once":
    "its network namespace and its pod are gone: it is released once two checks a minute apart have found that",
  "pod-there":
    "its network namespace is gone, but its pod still exists: it is released when the pod is deleted or has a newer sandbox",
  "pod-unknown": "its network namespace is gone, and the API server cannot be asked for its pod",
  "pod-unnamed":
    "its network namespace is gone, but the runtime did not name its pod: only DEL or GC of the runtime releases it",
  "netns-there":
    "its pod is gone, but its network namespace still exists: it is released when the runtime has deleted the sandbox",
  "netns-unknown": "its pod is gone, and its network namespace cannot be looked for",
};

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
  return `${used} of ${total}${total === 0 ? "" : ` (${Math.floor((used / total) * 100)} %)`}`;
}

/** What is wrong with the addresses of a node, but for leaks. */
export function addressProblems(addresses: NodeAddresses): readonly string[] {
  const { confirmed, apiProblem, survivors, pools, blocks } = addresses;
  const lost = blocks.filter(({ state }) => state === "lost");
  return [
    ...(confirmed
      ? []
      : [
          "the API server has not confirmed this node's blocks since it was booted: no address is handed out",
        ]),
    ...(apiProblem === undefined ? [] : [`the API server cannot be asked: ${apiProblem}`]),
    ...(survivors === 0
      ? []
      : [
          `the agent's journal was lost: the blocks that it had rest until ${plural(survivors, "pod")} of then ${survivors === 1 ? "is" : "are"} gone`,
        ]),
    ...lost.map(
      ({ name, used }) =>
        `block ${name} is not this node's any more: its ${plural(used, "address")} stay with their pods`,
    ),
    ...pools.flatMap(({ name, warning }) =>
      warning === undefined ? [] : [`pool ${name}: ${warning.message}`],
    ),
  ];
}

/** What rests after its release; undefined where nothing does. */
export function restingWords({ resting, leftOut, at }: NodeAddresses): string | undefined {
  const count = resting.length + leftOut.resting;
  if (count === 0) return undefined;
  const last = Math.max(...resting.map(({ untilAt }) => untilAt));
  return `${count === 1 ? "1 address rests" : `${count} addresses rest`} after release, the last for ${age(last - at)}`;
}
