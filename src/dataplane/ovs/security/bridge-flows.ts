import { Failure } from "../../../failure/failure.ts";
import { commitBundle } from "../../../protocols/openflow/bundle.ts";
import type { OpenflowConnection } from "../../../protocols/openflow/connection.ts";
import {
  addFlow,
  deleteFlow,
  deleteFlows,
  type Flow,
  type FlowFilter,
  flowKey,
  listFlows,
  readFlows,
} from "../../../protocols/openflow/flow.ts";
import { exactValue, field } from "../../../protocols/openflow/match.ts";
import { listPorts, readPorts } from "../../../protocols/openflow/port.ts";
import {
  closedFlow,
  FORWARDING_COOKIE,
  forwardingFlow,
  OURS_FILTER,
  portCookie,
  portFlows,
  type SecuredPort,
} from "./rules.ts";

/** What is missing in a bridge, and what is left over or changed. */
export interface FlowChanges {
  readonly add: readonly Flow[];
  readonly remove: readonly Flow[];
}

/**
 * Reads what a port's flows lack: also what another port left on this port's number is to go; flows of others stay.
 * @throws Failure port-failed where the bridge has no such port; invalid-request; dataplane-*
 */
export async function planPort(
  connection: OpenflowConnection,
  port: SecuredPort,
  signal: AbortSignal,
): Promise<FlowChanges> {
  const { numbers, flows } = await readBridge(connection, portFilter(port.name), signal);
  const number = numbers.get(port.name);
  if (number === undefined) {
    throw new Failure({
      code: "port-failed",
      what: `the bridge has no OpenFlow port ${JSON.stringify(port.name)}`,
      fix: "read Interface.error of the port and the log of ovs-vswitchd",
    });
  }
  const onNumber = listFlows({ ...OURS_FILTER, match: [field("inPort", number)] });
  const [others = []] = await connection.exchange([onNumber], signal);
  return planFlows([...flows, ...readFlows(others)], portFlows(number, port));
}

/** Applies changes, all at once; true where there were any. @throws Failure those of {@link commitBundle} */
export async function applyFlows(
  connection: OpenflowConnection,
  { add, remove }: FlowChanges,
  signal: AbortSignal,
): Promise<boolean> {
  await commitBundle(connection, [...remove.map(deleteFlow), ...add.map((flow) => addFlow(flow))], signal);
  return add.length + remove.length > 0;
}

/** Removes a port's flows, whether the port is still there or not; true when there were any. */
export async function removePortFlows(
  connection: OpenflowConnection,
  name: string,
  signal: AbortSignal,
): Promise<boolean> {
  const filter = portFilter(name);
  const [found = []] = await connection.exchange([listFlows(filter), deleteFlows(filter)], signal);
  return readFlows(found).length > 0;
}

/** All flows of ours that a bridge is to have. */
export interface BridgeSecurity {
  /** By name. */
  readonly ports: ReadonlyMap<string, SecuredPort>;
  /** Names of further ports that are secured: those without a flow for their number get one that drops everything. */
  readonly closed: ReadonlySet<string>;
  /** Whether the bridge's forwarding is a flow of ours too, because its fail_mode is `secure`. */
  readonly forwarding: boolean;
}

/** What {@link restoreFlows} did. */
export interface Restored {
  readonly changed: boolean;
  /** Whether the bridge had all the ports. */
  readonly complete: boolean;
}

/**
 * Puts the flows of all ports of a bridge right at once, for when it has lost them. Ports that the bridge does not
 * have (yet) are left out, but for flows of theirs that are in the way of another port.
 */
export async function restoreFlows(
  connection: OpenflowConnection,
  { ports, closed, forwarding }: BridgeSecurity,
  signal: AbortSignal,
): Promise<Restored> {
  const { numbers, flows } = await readBridge(connection, OURS_FILTER, signal);
  const present = [...ports.values()].flatMap((port) => {
    const number = numbers.get(port.name);
    return number === undefined ? [] : [{ port, number }];
  });
  const ownNumbers = new Set(present.map(({ number }) => number));
  const ownCookies = new Set(present.map(({ port }) => portCookie(port.name)));
  if (forwarding) ownCookies.add(FORWARDING_COOKIE);
  const occupied = new Set(numbers.values());
  const securedCookies = new Set([...ports.keys()].map(portCookie));
  const held = flows.filter((flow) => {
    const number = numberOf(flow);
    if (ownCookies.has(flow.cookie)) return true;
    if (number === undefined) return false;
    return ownNumbers.has(number) || (securedCookies.has(flow.cookie) && occupied.has(number));
  });
  const closing = [...closed].flatMap((name) => {
    const number = numbers.get(name);
    const cookie = portCookie(name);
    const isHeld = flows.some((flow) => flow.cookie === cookie && numberOf(flow) === number);
    return number === undefined || isHeld ? [] : [closedFlow(number, name)];
  });
  const wanted = [...present.flatMap(({ port, number }) => portFlows(number, port)), ...closing];
  const changes = planFlows(held, forwarding ? [...wanted, forwardingFlow] : wanted);
  return {
    changed: await applyFlows(connection, changes, signal),
    complete: present.length === ports.size && [...closed].every((name) => numbers.has(name)),
  };
}

/** Names of a bridge's ports that carry our mark, by whether they are to have flows of ours. */
export interface MarkedPorts {
  /** Their guests are restricted. They may be missing from the bridge for a moment. */
  readonly secured: readonly string[];
  /** Their guests' requests for addresses are answered, and nothing else; likewise. */
  readonly answered: readonly string[];
  readonly free: readonly string[];
}

/** Removes flows of ours whose port is free, or neither in the bridge nor secured; how many. */
export async function removeStrayFlows(
  connection: OpenflowConnection,
  { secured, answered, free }: MarkedPorts,
  signal: AbortSignal,
): Promise<number> {
  const { numbers, flows } = await readBridge(connection, OURS_FILTER, signal);
  const inBridge = new Set(numbers.keys()).difference(new Set(free));
  const known = new Set([FORWARDING_COOKIE, ...[...secured, ...answered, ...inBridge].map(portCookie)]);
  const remove = flows.filter(({ cookie }) => !known.has(cookie));
  await applyFlows(connection, { add: [], remove }, signal);
  return remove.length;
}

/** The bridge's ports with their OpenFlow numbers, and the flows that a filter selects. */
async function readBridge(connection: OpenflowConnection, filter: FlowFilter, signal: AbortSignal) {
  const requests = [listPorts, listFlows(filter)];
  const [portReplies = [], flowReplies = []] = await connection.exchange(requests, signal);
  return {
    numbers: new Map(readPorts(portReplies).map(({ number, name }) => [name, number])),
    flows: readFlows(flowReplies),
  };
}

/**
 * Pure: compares flows of ours with those that are to be. The bridge may hold them with their fields in another order.
 * @param held flows of ours that are either wanted or to go; a flow may come twice
 */
export function planFlows(held: readonly Flow[], wanted: readonly Flow[]): FlowChanges {
  const heldByKey = new Map(held.map((flow) => [flowKey(flow), flow]));
  const wantedKeys = new Set(wanted.map(flowKey));
  return {
    add: wanted.filter((flow) => {
      const is = heldByKey.get(flowKey(flow));
      return is?.cookie !== flow.cookie || !is.instructions.equals(flow.instructions);
    }),
    // One that is wanted with other actions is replaced by adding it.
    remove: [...heldByKey].filter(([key]) => !wantedKeys.has(key)).map(([, flow]) => flow),
  };
}

/** The port number that a flow of ours is for. */
function numberOf(flow: Flow): number | undefined {
  return exactValue(flow.match, "inPort")?.readUInt32BE();
}

function portFilter(portName: string): FlowFilter {
  return { cookie: portCookie(portName), cookieMask: 0xffff_ffff_ffff_ffffn };
}
