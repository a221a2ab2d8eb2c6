import { describeThrown, Failure } from "../../failure/failure.ts";
import { ANY_INDEX, createVhostUser, dumpBridgeDomains } from "../../protocols/vpp-api/messages.ts";
import type { Readiness } from "../dataplane.ts";
import { findBridge } from "./bridges.ts";
import type { VppContext } from "./context.ts";

/** {@link Dataplane.probe}: VPP's main thread answers, it has vhost-user interfaces, and the bridge domain is there. */
export async function probe(context: VppContext, bridge: string, signal: AbortSignal): Promise<Readiness> {
  try {
    const connection = await context.client.connection(signal);
    const all = { bd_id: ANY_INDEX, sw_if_index: ANY_INDEX };
    const bridges = await connection.dump(dumpBridgeDomains, all, signal);
    if (!connection.knows(createVhostUser)) {
      return { ready: false, reason: "VPP runs without vhost_plugin.so, or with one that we do not know" };
    }
    const found = findBridge({ bridges }, bridge);
    return found instanceof Failure ? { ready: false, reason: found.message } : { ready: true };
  } catch (thrown) {
    return { ready: false, reason: describeThrown(thrown) };
  }
}
