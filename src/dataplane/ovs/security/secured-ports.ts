import { describeThrown } from "../../../failure/failure.ts";
import { mapValue } from "../../../protocols/ovsdb/values.ts";
import type { PortRequest } from "../../port.ts";
import { type OvsContext, readRows } from "../database.ts";
import { OWNER, settingsBefore } from "../ports/marks.ts";
import { bridgePortsTable, bridgeTable, portTable } from "../tables.ts";
import type { MarkedPorts } from "./bridge-flows.ts";
import type { SecuredPort } from "./rules.ts";

/** What the flows of a request's port are made from, where it needs any. */
export function securedPort({ name, owner: { mac }, mtu, settings }: PortRequest): SecuredPort | undefined {
  const { security, dhcp } = settings;
  if (security === undefined && dhcp === undefined) return undefined;
  return { name, mac, addresses: security?.addresses, dhcp: dhcp && { ...dhcp, mac, mtu } };
}

/** Whether a port with these settings has flows of ours: names of {@link settingsBefore}. */
export function hasFlows(settings: ReadonlySet<string>): boolean {
  return settings.has("security") || settings.has("dhcp");
}

/**
 * Brings the flows of a port that the switch has made to the request. Without any, the bridge's OpenFlow socket is
 * not used, unless the port had some before.
 * @param before settings that the port had
 */
export async function settleSecurity(
  { security }: OvsContext,
  request: PortRequest,
  before: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<void> {
  const secured = securedPort(request);
  for (const bridge of security.bridgesOf(request.name)) {
    // Where it was before it moved.
    if (bridge !== request.bridge) await security.remove(bridge, request.name, signal);
  }
  if (secured !== undefined) await security.ensure(request.bridge, secured, signal);
  else if (hasFlows(before)) await security.remove(request.bridge, request.name, signal);
}

/**
 * Removes the flows of a port that is gone; what cannot be removed now is a stray of the next pass.
 * @param further a bridge that may have them from before this process started
 */
export async function dropSecurity(
  { security, logger }: OvsContext,
  name: string,
  further: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  const bridges = new Set(security.bridgesOf(name));
  if (further !== undefined) bridges.add(further);
  for (const bridge of bridges) {
    await security
      .remove(bridge, name, signal)
      .catch((thrown: unknown) =>
        logger.warn(
          { port: name, bridge, reason: describeThrown(thrown) },
          "could not remove the flows of a removed port, the next reconcile pass will",
        ),
      );
  }
}

/**
 * Removes flows of ours whose port is gone or is not secured any more: they would apply to the next port that gets its
 * number. So all bridges are checked that could have had ports of ours; one without secured ports need not speak
 * OpenFlow with us.
 * @returns how many there were
 * @throws Failure of the first bridge that could not be cleared, after the others were
 */
export async function removeStraySecurity(context: OvsContext, signal: AbortSignal): Promise<number> {
  const { security } = context;
  let removed = 0;
  await forEach(await readMarkedPorts(context, signal), async ([bridge, marked]) => {
    try {
      removed += await security.removeStrays(bridge, marked, signal);
    } catch (thrown) {
      if (marked.secured.length + marked.answered.length > 0 || security.isSecured(bridge)) throw thrown;
    }
  });
  return removed;
}

/** On a Bridge row: the administrator wants its forwarding to wait for the flows of its secured ports. */
const FORWARD_MARK = { "kube-vhostuser-forward": "true" };

/**
 * {@link Dataplane.enableForwarding}: gives every bridge that is marked for it the flow that makes it forward. With
 * fail_mode `secure` such a bridge carries nothing from the switch's start until here. A secured port that could not
 * be settled does not keep the others waiting: it is closed until it can be.
 * @throws Failure of the first bridge that could not be opened, after the others were
 */
export async function enableForwarding(context: OvsContext, signal: AbortSignal): Promise<void> {
  const query = bridgeTable.select(["external_ids", "includes", mapValue(FORWARD_MARK)]);
  const [bridges] = await readRows(context.client, [query], signal);
  const names = new Set(bridges.map(({ name }) => name));
  context.security.forwardOnly(names);
  if (names.size === 0) return;
  const marked = await readMarkedPorts(context, signal);
  await forEach(names, async (bridge) => {
    await context.security.forward(bridge, marked.get(bridge)?.secured ?? [], signal);
  });
}

/** Runs for one after the other, and throws the first failure after the last. */
async function forEach<Each>(all: Iterable<Each>, run: (each: Each) => Promise<void>): Promise<void> {
  const failures: unknown[] = [];
  for (const each of all) await run(each).catch((thrown: unknown) => failures.push(thrown));
  if (failures.length > 0) throw failures[0];
}

/** Ports of whatever node that carry our mark, by the name of each bridge that can have some. */
async function readMarkedPorts(
  context: OvsContext,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, MarkedPorts>> {
  const queries = [
    bridgePortsTable.select(["datapath_type", "==", "netdev"]),
    portTable.select(["external_ids", "includes", mapValue({ owner: OWNER })]),
  ] as const;
  const [bridges, rows] = await readRows(context.client, queries, signal);
  const byUuid = new Map(rows.map((port) => [port._uuid, port]));
  return new Map(
    bridges.map(({ name, ports }) => {
      const own = ports.flatMap((uuid) => byUuid.get(uuid) ?? []);
      const namesWhere = (applies: (settings: ReadonlySet<string>) => boolean) =>
        own.filter((port) => applies(settingsBefore(port))).map((port) => port.name);
      const secured = namesWhere((settings) => settings.has("security"));
      const answered = namesWhere((settings) => settings.has("dhcp") && !settings.has("security"));
      return [name, { secured, answered, free: namesWhere((settings) => !hasFlows(settings)) }];
    }),
  );
}
