import type { InterfaceStatus, NodeStatus } from "../shape.ts";
import { interfaceWords } from "../words.ts";
import { brokenLink } from "./chain.ts";
import type { Link } from "./link.ts";

/** Something that is wrong on a node, and where to look next. */
export interface Problem {
  readonly what: string;
  readonly look: string;
  /** The pod whose chain is broken. */
  readonly pod?: Pick<InterfaceStatus["pod"], "namespace" | "name">;
}

/**
 * Pure: what is wrong by the status of a node. An interface that waits for its guest is not among it.
 * @param linkOf for callers that know the first broken link of each interface already
 */
export function findProblems(
  status: NodeStatus,
  linkOf: (one: InterfaceStatus) => Link | undefined = (one) => brokenLink(one, status.at),
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
    const { namespace, name } = one.pod;
    const pod = `${namespace}/${name}`;
    const what = `${pod}, ${interfaceWords(one)}: ${link.what}`;
    return [{ what, look: `vhostuserctl trace ${pod}`, pod: { namespace, name } }];
  });
  const { ports, directories, records } = status.leftovers;
  const log = "the daemon's log; leftovers go with its next passes";
  return [
    ...(status.rootProblem === undefined ? [] : [{ what: status.rootProblem, look: doctor }]),
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
