import { Failure } from "../failure/failure.ts";
import type { CniContext } from "./cni-context.ts";
import type { NetworkConfig } from "./network-config.ts";

/** STATUS: whether ADD could succeed now, for the network's bridge or any pool's. @throws Failure `not-ready` */
export async function status(config: NetworkConfig, context: CniContext, signal: AbortSignal): Promise<void> {
  const reasons: string[] = [];
  for (const pool of context.node.pools.values()) {
    const readiness = await pool.dataplane.probe(config.bridge ?? pool.config.dataplane.bridge, signal);
    if (readiness.ready) return;
    reasons.push(`pool ${pool.config.name}: ${readiness.reason}`);
  }
  throw new Failure({
    code: "not-ready",
    what: reasons.join("; "),
    where: `node ${context.node.config.node}`,
  });
}
