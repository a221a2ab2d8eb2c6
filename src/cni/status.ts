import { Failure, toFailure } from "../failure/failure.ts";
import type { CniContext } from "./cni-context.ts";
import { ipamOf, type NetworkConfig } from "./network-config.ts";
import type { RawRequest } from "./request.ts";

/**
 * STATUS: whether ADD could succeed now, for the network's bridge or any pool's, and what the IPAM plugin says.
 * @throws Failure `not-ready`, or what the IPAM plugin answered
 */
export async function status(
  config: NetworkConfig,
  raw: RawRequest,
  context: CniContext,
  signal: AbortSignal,
): Promise<void> {
  const reasons: string[] = [];
  let isReady = false;
  for (const pool of context.node.pools.configured.values()) {
    const readiness = await pool.dataplane.probe(config.bridge ?? pool.config.dataplane.bridge, signal);
    if (readiness.ready) {
      isReady = true;
      break;
    }
    reasons.push(`pool ${pool.config.name}: ${readiness.reason}`);
  }
  if (!isReady) throw notReady(reasons.join("; "), context);
  try {
    await ipamOf(config, raw.delegate)?.status(raw);
  } catch (error) {
    const failure = toFailure(error);
    throw failure.code === "ipam-failed" ? failure : notReady(failure.what, context);
  }
}

function notReady(what: string, { node }: CniContext): Failure {
  return new Failure({ code: "not-ready", what, where: `node ${node.config.node}` });
}
