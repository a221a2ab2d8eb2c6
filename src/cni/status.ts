import { describeThrown, Failure, toFailure } from "../failure/failure.ts";
import { runIpam } from "../ipam/plugin-ipam.ts";
import { parseDeviceId } from "../names/device-id.ts";
import type { Pool } from "../pools/pools.ts";
import { isGoing } from "../records/port-record.ts";
import type { Clock } from "../sync/clock.ts";
import { orAborted } from "../sync/deadlines.ts";
import type { CniContext } from "./cni-context.ts";
import { givenDevice } from "./find-device.ts";
import type { NetworkConfig } from "./network-config.ts";
import type { RawRequest } from "./request.ts";
import { WorkDeadline } from "./work-deadline.ts";

/** Time for one switch, of the 30 s that the verb has. */
const PROBE_MS = 5_000;

/**
 * STATUS: whether ADD could succeed now: one of the pools that the network can use has a switch that is ready, and
 * the IPAM is ready. The switches are asked at the same time, each with its own deadline.
 * @throws Failure `not-ready`, or what the IPAM plugin answered
 */
export async function status(config: NetworkConfig, raw: RawRequest, context: CniContext): Promise<void> {
  const problems = usablePools(config, context).map((pool) =>
    poolProblem(pool, config.bridge, context.clock),
  );
  const ready = problems.map(async (problem) => {
    if ((await problem) !== undefined) throw new Error("not ready");
  });
  // The first that is ready decides, however long the others take.
  await Promise.any(ready).catch(async () => {
    throw notReady((await Promise.all(problems)).join("; "), context);
  });
  const type = config.ipam?.type;
  try {
    if (type !== undefined) await runIpam(type, "STATUS", raw, raw.delegate);
  } catch (error) {
    const failure = toFailure(error);
    throw failure.code === "ipam-failed" ? failure : notReady(failure.what, context);
  }
}

/**
 * The pools whose switch a network's interfaces get: the one of the device that the configuration names, else those in
 * which the network has interfaces now, else any. Multus tells STATUS nothing else about the resource of a network.
 */
function usablePools(config: NetworkConfig, { node: { pools, records } }: CniContext): readonly Pool[] {
  const named = pools.configured.get(parseDeviceId(givenDevice(config))?.pool ?? "");
  if (named !== undefined) return [named];
  const attached = records.ports.list().filter((port) => port.network === config.name && !isGoing(port));
  const used = new Set(attached.flatMap((port) => pools.ofPort(port) ?? []));
  return used.size > 0 ? [...used] : [...pools.configured.values()];
}

/** Why a pool's switch cannot have ports on a bridge, by default the pool's; undefined where it can. */
async function poolProblem(
  pool: Pool,
  bridge: string | undefined,
  clock: Clock,
): Promise<string | undefined> {
  const { config, dataplane } = pool;
  const deadline = new WorkDeadline({ ms: PROBE_MS, clock });
  try {
    const probe = dataplane.probe(bridge ?? config.dataplane.bridge, deadline.signal);
    const readiness = await orAborted(probe, deadline.signal);
    return readiness.ready ? undefined : `pool ${config.name}: ${readiness.reason}`;
  } catch (error) {
    return `pool ${config.name}: ${describeThrown(error)}`;
  } finally {
    deadline.close();
  }
}

function notReady(what: string, { node }: CniContext): Failure {
  return new Failure({ code: "not-ready", what, where: `node ${node.config.node}` });
}
