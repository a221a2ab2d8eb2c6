import { commitBundle } from "../../../protocols/openflow/bundle.ts";
import type { OpenflowConnection } from "../../../protocols/openflow/connection.ts";
import {
  addFlow,
  deleteFlow,
  deleteFlows,
  type Flow,
  listFlows,
  readFlows,
} from "../../../protocols/openflow/flow.ts";
import { field } from "../../../protocols/openflow/match.ts";
import { listPorts, portNumber, readPorts } from "../../../protocols/openflow/port.ts";
import { FORWARDING_COOKIE, OURS_FILTER, portCookie, portFilter } from "./cookie.ts";
import { type FlowChanges, planFlows, portOf } from "./plan.ts";
import { closedFlow, forwardingFlow, securityFlows } from "./rules.ts";

/** A port whose guest is held to its MAC and addresses. */
export interface SecuredPort {
  /** Its name, which its flows are known by; its OpenFlow number is asked of the bridge each time. */
  readonly name: string;
  readonly mac: string;
  /** Without prefix length; with none, only the link layer is looked at. */
  readonly addresses: readonly string[];
}

/**
 * Installs what lacks, removes what is ours and wrong (also what another port left on this port's number), all at
 * once; flows of others stay. True when anything was changed.
 * @throws Failure port-failed where the bridge has no such port; invalid-request; those of {@link commitBundle}
 */
export async function ensurePortSecurity(
  connection: OpenflowConnection,
  port: SecuredPort,
  signal: AbortSignal,
): Promise<boolean> {
  return apply(connection, await planPort(connection, port, signal), signal);
}

/**
 * What differs from what {@link ensurePortSecurity} would leave, one sentence each.
 * @throws Failure as there
 */
export async function checkPortSecurity(
  connection: OpenflowConnection,
  port: SecuredPort,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { add, remove } = await planPort(connection, port, signal);
  const of = `security of port ${port.name}`;
  return [
    ...(add.length === 0 ? [] : [`${add.length} of the flows for the ${of} are missing or changed`]),
    ...(remove.length === 0 ? [] : [`${remove.length} flows for the ${of} are left over or of another port`]),
  ];
}

/** Removes a port's flows, be the port still there or not; true when there were any. */
export async function removePortSecurity(
  connection: OpenflowConnection,
  name: string,
  signal: AbortSignal,
): Promise<boolean> {
  const filter = portFilter(name);
  const [found = []] = await connection.exchange([listFlows(filter), deleteFlows(filter)], signal);
  return readFlows(found).length > 0;
}

/** All that is to hold on one bridge. */
export interface BridgeSecurity {
  readonly ports: readonly SecuredPort[];
  /** Names of further ports that are to be held: with no flow for their number nothing comes from them. */
  readonly closed: ReadonlySet<string>;
  /** Whether the bridge's forwarding is a flow of ours too, because its fail_mode is `secure`. */
  readonly forwarding: boolean;
}

/** What {@link restorePortSecurity} did. */
export interface Restored {
  readonly changed: boolean;
  /** Whether the bridge had all the ports. */
  readonly complete: boolean;
}

/**
 * {@link ensurePortSecurity} for all ports of a bridge at once, for when it has lost its flows. Ports that the
 * bridge does not have (yet) are left out, but for flows of theirs that are in the way of another port.
 */
export async function restorePortSecurity(
  connection: OpenflowConnection,
  { ports, closed, forwarding }: BridgeSecurity,
  signal: AbortSignal,
): Promise<Restored> {
  const [portReplies = [], flowReplies = []] = await connection.exchange(
    [listPorts, listFlows(OURS_FILTER)],
    signal,
  );
  const numbers = new Map(readPorts(portReplies).map(({ number, name }) => [name, number]));
  const present = ports.flatMap((port) => {
    const number = numbers.get(port.name);
    return number === undefined ? [] : [{ port, number }];
  });
  const ownNumbers = new Set(present.map(({ number }) => number));
  const ownCookies = new Set(present.map(({ port }) => portCookie(port.name)));
  if (forwarding) ownCookies.add(FORWARDING_COOKIE);
  const occupied = new Set(numbers.values());
  const absentCookies = new Set(ports.map(({ name }) => portCookie(name)));
  const flows = readFlows(flowReplies);
  const held = flows.filter((flow) => {
    const number = portOf(flow);
    if (ownCookies.has(flow.cookie)) return true;
    if (number === undefined) return false;
    return ownNumbers.has(number) || (absentCookies.has(flow.cookie) && occupied.has(number));
  });
  const shut = [...closed].flatMap((name) => {
    const ofport = numbers.get(name);
    const cookie = portCookie(name);
    const isHeld = flows.some((flow) => flow.cookie === cookie && portOf(flow) === ofport);
    return ofport === undefined || isHeld ? [] : [closedFlow({ ofport, cookie })];
  });
  const wanted = [...present.flatMap(({ port, number }) => flowsOf(port, number)), ...shut];
  const plan = planFlows(held, forwarding ? [...wanted, forwardingFlow] : wanted);
  return {
    changed: await apply(connection, plan, signal),
    complete: present.length === ports.length && [...closed].every((name) => numbers.has(name)),
  };
}

/** Which ports have flows of ours rightly. */
export interface FlowOwners {
  /** Names of ports that are secured and may be missing from the bridge for a moment. */
  readonly keep: readonly string[];
  /** Names of ports that are not to be held. */
  readonly free: readonly string[];
}

/** Removes flows of ours whose port is free, or neither in the bridge nor to be kept; how many. */
export async function removeStrayFlows(
  connection: OpenflowConnection,
  { keep, free }: FlowOwners,
  signal: AbortSignal,
): Promise<number> {
  const [portReplies = [], flowReplies = []] = await connection.exchange(
    [listPorts, listFlows(OURS_FILTER)],
    signal,
  );
  const bare = new Set(free);
  const inBridge = readPorts(portReplies).flatMap(({ name }) => (bare.has(name) ? [] : [name]));
  const known = new Set([FORWARDING_COOKIE, ...[...keep, ...inBridge].map(portCookie)]);
  const remove = readFlows(flowReplies).filter(({ cookie }) => !known.has(cookie));
  await apply(connection, { add: [], remove }, signal);
  return remove.length;
}

async function planPort(
  connection: OpenflowConnection,
  port: SecuredPort,
  signal: AbortSignal,
): Promise<FlowChanges> {
  const [portReplies = [], own = []] = await connection.exchange(
    [listPorts, listFlows(portFilter(port.name))],
    signal,
  );
  const number = portNumber(readPorts(portReplies), port.name);
  const onNumber = listFlows({ ...OURS_FILTER, match: [field("inPort", number)] });
  const [others = []] = await connection.exchange([onNumber], signal);
  return planFlows([...readFlows(own), ...readFlows(others)], flowsOf(port, number));
}

function flowsOf({ name, mac, addresses }: SecuredPort, ofport: number): Flow[] {
  return securityFlows({ ofport, mac, addresses, cookie: portCookie(name) });
}

async function apply(
  connection: OpenflowConnection,
  { add, remove }: FlowChanges,
  signal: AbortSignal,
): Promise<boolean> {
  await commitBundle(connection, [...remove.map(deleteFlow), ...add.map(addFlow)], signal);
  return add.length + remove.length > 0;
}
