import { addressProblems, clusterWords, leakTitle, leakWords, restingWords } from "../address-words.ts";
import type { Problem } from "../diagnosis/problems.ts";
import type { AddressesReading } from "../read-addresses.ts";
import type { PageAddresses } from "./page-shape.ts";

/** More would put the rest of the page out of sight. */
const MAX_POOLS = 50;
const MAX_LEAKS = 20;

/** Pure: what the page shows of the node's addresses; undefined where no agent answers. */
export function describeAddresses(reading: AddressesReading): PageAddresses | undefined {
  if (reading === undefined || !("pools" in reading)) return undefined;
  const { pools, leaks, leftOut } = reading;
  const shownPools = pools.slice(0, MAX_POOLS);
  const shownLeaks = leaks.slice(0, MAX_LEAKS);
  return {
    pools: shownPools.map((pool) => ({ name: pool.name, ...pool.node, cluster: clusterWords(pool) })),
    morePools: leftOut.pools + pools.length - shownPools.length,
    leaks: shownLeaks.map((leak) => ({ what: leakTitle(leak), why: leakWords(leak) })),
    moreLeaks: leftOut.leaks + leaks.length - shownLeaks.length,
    resting: restingWords(reading),
  };
}

/** Pure: what is wrong with the node's addresses; what does no harm yet is in `vhostuserctl doctor` only. */
export function problemsOfAddresses(reading: AddressesReading): readonly Problem[] {
  if (reading === undefined) return [];
  if (!("pools" in reading)) return [{ what: reading.what, look: "vhostuserctl doctor" }];
  return addressProblems(reading)
    .filter(({ verdict }) => verdict === "problem")
    .map(({ what }) => ({ what, look: "vhostuserctl ip pools" }));
}
