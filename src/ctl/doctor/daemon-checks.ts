import { listAllocationDirectories } from "../../allocation/socket-directories.ts";
import { switchProgram } from "../../dataplane/switch-kind.ts";
import { describeThrown, Failure } from "../../failure/failure.ts";
import { deviceNamesOf } from "../../records/allocation-record.ts";
import { readRecords } from "../../records/records.ts";
import { type NodeStatus, nodeStatusShape } from "../../status/shape.ts";
import { statusSocket } from "../../status/status-source.ts";
import { age, plural } from "../../status/words.ts";
import { askDaemon } from "../daemon-client.ts";
import {
  type CheckedNode,
  type Finding,
  fine,
  type NodeCheck,
  problem,
  skipped,
  warning,
} from "./node-check.ts";

/** A pass may take a minute, and a switch that is down makes some fail. */
const OLD_PASS_MS = 10 * 60_000;

/** The daemon itself; everything else is checked without it. */
export const daemonCheck: NodeCheck = {
  name: "daemon",
  check: async ({ config, host }) => {
    const socket = host.places.socket ?? statusSocket(config);
    try {
      return checkDaemon(await askDaemon(socket, "/v1/node", nodeStatusShape), config.node, host.version);
    } catch (error) {
      const what = error instanceof Failure ? `${error.what} (${socket})` : describeThrown(error);
      return [problem(what, "kubectl -n kube-vhostuser get pods -o wide, and the log of this node's pod")];
    }
  },
};

function checkDaemon(status: NodeStatus, wantedNode: string, ownVersion: string): readonly Finding[] {
  const { version, at, startedAt, lastPassAt = startedAt, resources, node } = status;
  const findings = [fine(`release ${version}, up ${age(at - startedAt)}`)];
  if (node !== wantedNode) {
    const what = `the daemon calls this node ${node}, the configuration ${wantedNode}`;
    findings.push(warning(what, "set NODE_NAME for this program"));
  }
  if (version !== ownVersion) {
    const what = `this program is of release ${ownVersion}`;
    findings.push(warning(what, "run the one of the daemon's own image"));
  }
  const missing = resources.filter(({ registered }) => !registered).map(({ name }) => name);
  findings.push(
    missing.length === 0
      ? fine("registered with kubelet")
      : problem(
          `not registered with kubelet: ${missing.join(", ")}`,
          "the daemon keeps retrying; its log has kubelet's answer",
        ),
  );
  if (at - lastPassAt > OLD_PASS_MS) {
    const what = `the reconciler has not finished a pass for ${age(at - lastPassAt)}`;
    findings.push(
      problem(what, "nothing is repaired or reclaimed; the daemon's log names the stage that fails"),
    );
  }
  return findings;
}

/** The daemon's records. */
export const recordsCheck: NodeCheck = {
  name: "records",
  check: async ({ config: { recordsDirectory } }) => {
    const { allocations, ports, unreadable } = await readRecords(recordsDirectory);
    return [
      fine(
        `${recordsDirectory}: ${plural(allocations.length, "allocation")}, ${plural(ports.length, "interface")}`,
      ),
      ...unreadable.map(({ file, reason }) =>
        problem(
          `${file}: ${reason}`,
          "delete its pod so that it is allocated again; keep the file for a report, then remove it",
        ),
      ),
    ];
  },
};

/** Whether each pool's switch answers and its bridge can take ports: DPDK on, the userspace datapath. */
export const switchCheck: NodeCheck = {
  name: "switch",
  check: ({ switches }, signal) =>
    Promise.all(
      switches.map(async ({ pool, dataplane }) => {
        const { bridge, type } = pool.dataplane;
        const readiness = await dataplane.probe(bridge, signal);
        if (!readiness.ready) {
          return problem(`pool ${pool.name}: ${readiness.reason}`, switchProgram(pool.dataplane).whereToLook);
        }
        const version = await dataplane.version(signal).catch(() => type);
        return fine(`pool ${pool.name}: bridge ${bridge} of ${version}`);
      }),
    ),
};

const CURE =
  "the daemon removes it in one of its next passes, once kubelet's list shows that no pod holds it; if it stays, the daemon's log says why";

/** Ports and directories without a record, and records without a directory. */
export const leftoversCheck: NodeCheck = {
  name: "leftovers",
  check: async (node, signal) => {
    const first = await findLeftovers(node, signal);
    // A DEL between two reads looks like a leftover; only what a second read finds too is reported.
    const found = first.length === 0 ? first : stillThere(first, await findLeftovers(node, signal));
    return found.length === 0 ? [fine("none")] : found;
  },
};

function stillThere(before: readonly Finding[], now: readonly Finding[]): readonly Finding[] {
  const known = new Set(before.map(({ what }) => what));
  return now.filter(({ what }) => known.has(what));
}

async function findLeftovers(
  { config, switches }: CheckedNode,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const directories: readonly string[] = await listAllocationDirectories(config.root).catch(() => []);
  const dataplanes = new Map(switches.map(({ pool, dataplane }) => [dataplane, pool.name]));
  const listed = await Promise.all(
    [...dataplanes].map(async ([dataplane, pool]) => ({
      pool,
      ports: await dataplane.listPorts(signal).catch(() => undefined),
    })),
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
      .map((allocation) =>
        problem(
          `allocation ${allocation.id} (${deviceNamesOf(allocation).join(", ")}) has no directory`,
          "a running daemon makes it again, or its log says why it cannot. A pod that has the old one mounted must be deleted",
        ),
      ),
  ];
}
