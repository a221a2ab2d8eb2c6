import { listAllocationDirectories } from "../../allocation/directory/list.ts";
import type { Dataplane } from "../../dataplane/dataplane.ts";
import { type CheckedNode, type Finding, fine, type NodeCheck, problem, skipped } from "./node-check.ts";
import { readRecords } from "./read-records.ts";

const CURE =
  "the daemon takes it away with its next passes, once kubelet's list shows that no pod holds it; where it stays, the daemon's log tells why";

/** What no record asks for, and what records ask for in vain. */
export const leftoversCheck: NodeCheck = {
  name: "leftovers",
  check: async (node, signal) => {
    const first = await look(node, signal);
    // A DEL that ran between two readings looks like one; what is there at a second look too is none.
    const found = first.length === 0 ? first : stillThere(first, await look(node, signal));
    return found.length === 0 ? [fine("none")] : found;
  },
};

function stillThere(before: readonly Finding[], now: readonly Finding[]): readonly Finding[] {
  const known = new Set(before.map(({ what }) => what));
  return now.filter(({ what }) => known.has(what));
}

async function look({ config, switches }: CheckedNode, signal: AbortSignal): Promise<readonly Finding[]> {
  const directories: readonly string[] = await listAllocationDirectories(config.root).catch(() => []);
  const dataplanes = new Map(switches.map(({ pool, dataplane }) => [dataplane, pool.name]));
  const listed = await Promise.all(
    [...dataplanes].map(async ([dataplane, pool]) => ({ pool, ports: await list(dataplane, signal) })),
  );
  // Last: a record is written before its port is made.
  const { allocations, ports } = await readRecords(config.recordsDirectory);
  const asked = new Set(ports.map(({ portName }) => portName));
  const allocated = new Set(allocations.map(({ id }) => id));
  return [
    ...listed.flatMap(({ pool, ports: own }) =>
      own === undefined
        ? [skipped(`ports of pool ${pool}: its switch does not answer`)]
        : own
            .filter(({ name }) => !asked.has(name))
            .map(({ name, bridge, owner }) =>
              problem(
                `port ${name} on bridge ${bridge} (pod ${owner.podNamespace}/${owner.podName}) has no record`,
                CURE,
              ),
            ),
    ),
    ...directories
      .filter((id) => !allocated.has(id))
      .map((id) => problem(`directory ${config.root}/${id} has no record`, CURE)),
    ...allocations
      .filter(({ id }) => !directories.includes(id))
      .map(({ id, devices }) =>
        problem(
          `allocation ${id} (${devices.join(", ")}) has no directory`,
          "the daemon makes it anew while it runs, and its log tells why if it cannot. A pod that had the old one mounted has to be deleted",
        ),
      ),
  ];
}

function list(dataplane: Dataplane, signal: AbortSignal) {
  return dataplane.listPorts(signal).catch(() => undefined);
}
