import type { NodeStatus } from "../shape.ts";
import { brokenLink } from "./chain.ts";
import type { Link } from "./link.ts";

/** Something that is wrong on a node, and where to look next. */
export interface Problem {
  readonly what: string;
  readonly look: string;
}

/**
 * Pure: what is wrong by the status of a node. An interface that waits for its guest is not among it.
 * @param linkOf for callers that know the first broken link of each interface already
 */
export function findProblems(
  status: NodeStatus,
  linkOf: (one: NodeStatus["interfaces"][number]) => Link | undefined = brokenLink,
): readonly Problem[] {
  const doctor = "vhostuserctl doctor";
  const pools = status.pools
    .filter((pool) => !pool.switch.ready)
    .map((pool) => ({
      what: `pool ${pool.name}: ${pool.switch.reason ?? "its switch is not ready"}`,
      look: doctor,
    }));
  const resources = status.resources
    .filter(({ registered }) => !registered)
    .map(({ name }) => ({ what: `resource ${name} is not registered with kubelet`, look: doctor }));
  const interfaces = status.interfaces.flatMap((one) => {
    const link = linkOf(one);
    if (link?.verdict !== "broken") return [];
    const pod = `${one.pod.namespace}/${one.pod.name}`;
    return [{ what: `${pod}, ${one.name ?? one.device}: ${link.what}`, look: `vhostuserctl trace ${pod}` }];
  });
  const { ports, directories, records } = status.leftovers;
  const log = "the daemon's log; leftovers go with its next passes";
  return [
    ...pools,
    ...resources,
    ...interfaces,
    ...ports.map(({ name, bridge, pod }) => ({
      what: `port ${name} on bridge ${bridge} (${pod}) has no record`,
      look: log,
    })),
    ...directories.map((id) => ({ what: `directory ${id} has no record`, look: log })),
    ...records.map(({ file, reason }) => ({
      what: `record ${file} cannot be read: ${reason}`,
      look: "docs/errors.md, record-unreadable",
    })),
  ];
}
