import { listAllocationDirectories } from "../../allocation/socket-directories.ts";
import { switchProgram } from "../../dataplane/switch-kind.ts";
import { describeThrown, Failure } from "../../failure/failure.ts";
import { readRecords } from "../../records/records.ts";
import { type NodeStatus, nodeStatusShape } from "../../status/shape.ts";
import { askDaemon } from "../../status/status-client.ts";
import { statusSocket } from "../../status/status-source.ts";
import { age, plural } from "../../status/words.ts";
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
export const daemonCheck: NodeCheck = async ({ config, host }) => {
  const socket = host.places.socket ?? statusSocket(config);
  try {
    return checkDaemon(await askDaemon(socket, "/v1/node", nodeStatusShape), config.node, host.version);
  } catch (error) {
    const what = error instanceof Failure ? `${error.what} (${socket})` : describeThrown(error);
    return [problem(what, "kubectl -n kube-vhostuser get pods -o wide, and the log of this node's pod")];
  }
};

function checkDaemon(status: NodeStatus, wantedNode: string, ownVersion: string): readonly Finding[] {
  const { version, at, startedAt, lastPassAt = startedAt, resources, node, rootProblem } = status;
  const findings = [fine(`release ${version}, up ${age(at - startedAt)}`)];
  if (node !== wantedNode) {
    const what = `the daemon calls this node ${node}, the configuration ${wantedNode}`;
    findings.push(warning(what, "set NODE_NAME for this program"));
  }
  if (version !== ownVersion) {
    const what = `this program is of release ${ownVersion}`;
    findings.push(warning(what, "run the one of the daemon's own image"));
  }
  if (rootProblem !== undefined) {
    const cure =
      "delete the daemon's pod: the next one mounts the root; docs/runbooks.md, VhostuserRootUnusable";
    findings.push(problem(rootProblem, cure));
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
export const recordsCheck: NodeCheck = async ({ config: { recordsDirectory } }) => {
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
};

/** Whether each pool's switch answers and its bridge can take ports, and what that switch does not offer. */
export const switchCheck: NodeCheck = async ({ switches }, signal) => {
  const found = switches.map(async ({ pool, dataplane }) => {
    const { bridge, type } = pool.dataplane;
    const readiness = await dataplane.probe(bridge, signal);
    if (!readiness.ready) {
      return [problem(`pool ${pool.name}: ${readiness.reason}`, switchProgram(pool.dataplane).whereToLook)];
    }
    const version = await dataplane.version(signal).catch(() => type);
    const { limitations = [] } = readiness;
    return [
      fine(`pool ${pool.name}: bridge ${bridge} of ${version}`),
      ...limitations.map((what) => warning(`pool ${pool.name}: ${what}`, LIMITED)),
    ];
  });
  return (await Promise.all(found)).flat();
};

const LIMITED = "docs/vpp.md says what each feature needs; networks without it work";

const CURE =
  "the daemon removes it in one of its next passes, once kubelet's list shows that no pod holds it; if it stays, the daemon's log says why";

/** Ports and directories without a record. */
export const leftoversCheck: NodeCheck = async (node, signal) => {
  const first = new Set((await findLeftovers(node, signal)).map(({ what }) => what));
  if (first.size === 0) return [fine("none")];
  // A DEL between two reads looks like a leftover; only what a second read finds too is reported.
  const found = (await findLeftovers(node, signal)).filter(({ what }) => first.has(what));
  return found.length === 0 ? [fine("none")] : found;
};

async function findLeftovers(
  { config, switches }: CheckedNode,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const directories = await listAllocationDirectories(config.root).catch(() => []);
  const dataplanes = new Map(switches.map(({ pool, dataplane }) => [dataplane, pool.name]));
  const listed = await Promise.all(
    [...dataplanes].map(async ([dataplane, pool]) => ({
      pool,
      ports: await dataplane.listPorts(signal).catch(describeThrown),
    })),
  );
  // Last: a record is written before its port is made.
  const { allocations, ports } = await readRecords(config.recordsDirectory);
  const asked = new Set(ports.map(({ portName }) => portName));
  const allocated = new Set(allocations.map(({ id }) => id));
  return [
    ...listed.flatMap(({ pool, ports: own }) =>
      typeof own === "string"
        ? [skipped(`ports of pool ${pool}: ${own}`)]
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
  ];
}
