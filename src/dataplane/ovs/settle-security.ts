import { describeThrown } from "../../failure/failure.ts";
import { requireCommitted } from "../../protocols/ovsdb/transaction.ts";
import { mapValue } from "../../protocols/ovsdb/values.ts";
import type { PortRequest } from "../port.ts";
import type { OvsContext } from "./context.ts";
import { OWNER, settingsBefore } from "./marks.ts";
import type { SecuredPort } from "./port-security/secure-ports.ts";
import { bridgeTable, portTable } from "./rows.ts";

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
  for (const bridge of context.security.bridgesOf(request.name)) {
    // Where it was before it moved.
    if (bridge !== request.bridge) await context.security.remove(bridge, request.name, signal);
  }
  if (secured !== undefined) await context.security.ensure(request.bridge, secured, signal);
  else if (before.has("security")) await context.security.remove(request.bridge, request.name, signal);
}

/**
 * Flows of a port that is gone; what cannot be removed now is a stray of the next pass.
 * @param further a bridge that may have them, though this process was not told
 */
export async function dropSecurity(
  context: OvsContext,
  name: string,
  further: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  const bridges = new Set(context.security.bridgesOf(name));
  if (further !== undefined) bridges.add(further);
  for (const bridge of bridges) {
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
 * Removes flows of ours whose port is gone or is not to be held any more: a number that is given out again would have
 * them, on whoever's port. So all bridges are looked at that could have had ports of ours; one without secured ports may
 * refuse to speak OpenFlow with us.
 * @returns how many there were
 * @throws Failure of the first bridge that could not be cleared, after the others were
 */
export async function removeStrayFlows(context: OvsContext, signal: AbortSignal): Promise<number> {
  const marked = await readMarkedPorts(context, signal);
  const failures: unknown[] = [];
  let removed = 0;
  for (const [bridge, { secured, free }] of marked) {
    try {
      removed += await context.security.removeStray(bridge, { keep: secured, free }, signal);
    } catch (thrown) {
      if (secured.length > 0 || context.security.isSecured(bridge)) failures.push(thrown);
    }
  }
  if (failures.length > 0) throw failures[0];
  return removed;
}

/** On a Bridge row: the administrator wants its forwarding to wait for the flows of its secured ports. */
const FORWARD_MARK = { "kube-vhostuser-forward": "true" };

/**
 * {@link Dataplane.enableForwarding}: gives every bridge that is marked for it the flow that makes it forward. With
 * fail_mode `secure` such a bridge carries nothing from the switch's start until here. A secured port that could not
 * be settled (its pod's doing, perhaps) does not keep the others waiting: it is closed until it can be.
 * @throws Failure of the first bridge that could not be opened, after the others were
 */
export async function openHeldBridges(context: OvsContext, signal: AbortSignal): Promise<void> {
  const look = [bridgeTable.select([["external_ids", "includes", mapValue(FORWARD_MARK)]])];
  const [found] = requireCommitted(look, await context.client.transact(look, signal));
  const held = new Set(bridgeTable.read(found).map(({ name }) => name));
  for (const bridge of context.security.bridges()) if (!held.has(bridge)) context.security.leave(bridge);
  if (held.size === 0) return;
  const marked = await readMarkedPorts(context, signal);
  const failures: unknown[] = [];
  for (const bridge of held) {
    try {
      await context.security.forward(bridge, marked.get(bridge)?.secured ?? [], signal);
    } catch (thrown) {
      failures.push(thrown);
    }
  }
  if (failures.length > 0) throw failures[0];
}

/** Names of a bridge's ports that carry our mark, of whatever node, by whether they are to have security. */
interface MarkedPorts {
  readonly secured: string[];
  readonly free: string[];
}

/** By name of each bridge that can have ports of ours. */
async function readMarkedPorts(
  context: OvsContext,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, MarkedPorts>> {
  const operations = [
    bridgeTable.select([["datapath_type", "==", "netdev"]]),
    portTable.select([["external_ids", "includes", mapValue({ owner: OWNER })]]),
  ];
  const results = requireCommitted(operations, await context.client.transact(operations, signal));
  const ports = new Map(portTable.read(results[1]).map((port) => [port._uuid, port]));
  return new Map(
    bridgeTable.read(results[0]).map((bridge) => {
      const found: MarkedPorts = { secured: [], free: [] };
      for (const uuid of bridge.ports) {
        const port = ports.get(uuid);
        if (port === undefined) continue;
        const isSecured = settingsBefore(port.external_ids).has("security");
        (isSecured ? found.secured : found.free).push(port.name);
      }
      return [bridge.name, found];
    }),
  );
}
