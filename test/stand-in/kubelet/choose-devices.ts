import { splitByAffinity } from "./numa-affinity.ts";
import type { PluginClient, PluginOptions } from "./plugin-client.ts";
import { shuffled } from "./seeded-random.ts";

/** The NUMA nodes that the topology manager chose for a container; undefined where it has no opinion. */
export type Affinity = readonly number[] | undefined;

/** A question which devices a plugin prefers, and its answer. */
export interface PreferenceCall {
  readonly resource: string;
  readonly available: readonly string[];
  readonly mustInclude: readonly string[];
  readonly size: number;
  readonly answer: readonly string[];
}

/** What devices are chosen from. */
export interface DeviceChoice {
  readonly resource: string;
  /** How many in all. */
  readonly count: number;
  /** Those that an init container leaves: they are taken first. */
  readonly first: readonly string[];
  readonly free: readonly string[];
  readonly nodesOf: (id: string) => readonly number[];
  readonly affinity: Affinity;
  readonly plugin: { readonly client: PluginClient; readonly options: PluginOptions } | undefined;
  readonly random: () => number;
  /** Calls of GetPreferredAllocation are noted here. */
  readonly calls: PreferenceCall[];
}

/**
 * kubelet's order: with more devices on the topology manager's nodes than are needed the plugin is asked which of
 * those; else all of them are taken and the plugin is asked about the rest. Without an opinion of the topology
 * manager the rest is everything, and the plugin is asked even where there is nothing to choose.
 */
export async function chooseDevices(choice: DeviceChoice): Promise<readonly string[]> {
  const { count, first, free, nodesOf, affinity, random } = choice;
  const { aligned, unaligned, none } = splitByAffinity(free, nodesOf, affinity);
  const take = (...sets: readonly (readonly string[])[]) =>
    [...new Set([...first, ...sets.flat()])].slice(0, count);
  if (count - first.length < aligned.length) {
    const wish = await preferred(choice, [...aligned, ...first]);
    const offered = wish.filter((id) => aligned.includes(id));
    return take(offered, shuffled(aligned, random));
  }
  const surely = take(aligned);
  if (surely.length === count) return surely;
  const wish = await preferred(choice, [...free, ...first]);
  const offered = wish.filter((id) => free.includes(id));
  return take(aligned, offered, shuffled(unaligned, random), shuffled(none, random));
}

/** The plugin's preference. An error of the call fails the pod. */
async function preferred(choice: DeviceChoice, available: readonly string[]): Promise<readonly string[]> {
  const { resource, first: mustInclude, count: size, plugin, random, calls } = choice;
  if (plugin?.options.get_preferred_allocation_available !== true) return [];
  const asked = shuffled(available, random);
  const answer = await plugin.client.preferred(asked, mustInclude, size);
  calls.push({ resource, available: asked, mustInclude, size, answer });
  return answer;
}
