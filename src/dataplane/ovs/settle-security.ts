import { describeThrown, Failure } from "../../failure/failure.ts";
import { requireCommitted } from "../../ovsdb/transaction.ts";
import { mapValue } from "../../ovsdb/values.ts";
import type { PortRequest } from "../port.ts";
import type { OvsContext } from "./context.ts";
import { listPorts } from "./list-ports.ts";
import type { SecuredPort } from "./port-security/secure-ports.ts";
import { bridgeTable } from "./rows.ts";

/** What the flows of a request's port are made from, where it asks for security. */
export function securedPort({ name, owner, settings }: PortRequest): SecuredPort | undefined {
  if (settings.security === undefined) return undefined;
  return { name, mac: owner.mac, addresses: settings.security.addresses };
}

/**
 * Brings the flows of a port that the switch has made to what is asked. Without security the bridge's OpenFlow socket
 * is not touched, unless the port had it before.
 * @param before settings that the port had
 */
export async function settleSecurity(
  context: OvsContext,
  request: PortRequest,
  before: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<void> {
  const secured = securedPort(request);
  if (secured !== undefined) await context.security.ensure(request.bridge, secured, signal);
  else if (before.has("security")) await context.security.remove(request.bridge, request.name, signal);
}

/** Flows of a port that is gone; what cannot be removed now is a stray of the next pass. */
export async function dropSecurity(context: OvsContext, name: string, signal: AbortSignal): Promise<void> {
  for (const bridge of context.security.bridgesOf(name)) {
    try {
      await context.security.remove(bridge, name, signal);
    } catch (thrown) {
      context.logger.warn(
        { port: name, bridge, reason: describeThrown(thrown) },
        "the flows of a removed port stay until the next pass",
      );
    }
  }
}

/**
 * Removes flows of ours whose port is gone, on every bridge with ports of ours: a number that is given out again would
 * have them. A bridge that nobody ever secured may refuse to speak OpenFlow with us.
 * @returns how many there were
 */
export async function removeStrayFlows(context: OvsContext, signal: AbortSignal): Promise<number> {
  const ports = await listPorts(context, signal);
  const bridges = new Set([...ports.map(({ bridge }) => bridge), ...context.security.bridges()]);
  let removed = 0;
  for (const bridge of bridges) {
    const keep = ports.filter((port) => port.bridge === bridge).map(({ name }) => name);
    try {
      removed += await context.security.removeStray(bridge, keep, signal);
    } catch (thrown) {
      if (!(thrown instanceof Failure) || thrown.code !== "dataplane-unfit") throw thrown;
      if (context.security.isSecured(bridge)) throw thrown;
    }
  }
  return removed;
}

/** On a Bridge row: the administrator wants its forwarding to wait for the flows of its secured ports. */
const FORWARD_MARK = { "kube-vhostuser-forward": "true" };

/**
 * {@link Dataplane.portsSettled}: gives every bridge that is marked for it the flow that makes it forward. With
 * fail_mode `secure` such a bridge carries nothing from the switch's start until here.
 */
export async function openHeldBridges(context: OvsContext, signal: AbortSignal): Promise<void> {
  const look = [bridgeTable.select([["external_ids", "includes", mapValue(FORWARD_MARK)]])];
  const [found] = requireCommitted(look, await context.client.transact(look, signal));
  for (const { name } of bridgeTable.read(found)) await context.security.forward(name, signal);
}
