import { Failure } from "../../failure/failure.ts";
import type { VppConnection } from "../../protocols/vpp-api/connection.ts";
import {
  ANY_INDEX,
  dumpInterfaces,
  interfaceEvent,
  wantInterfaceEvents,
} from "../../protocols/vpp-api/messages.ts";
import { EVENTS_WANTED } from "../../protocols/vpp-api/retval.ts";
import type { Clock } from "../../sync/clock.ts";
import { whenAborted, within } from "../../sync/deadlines.ts";
import type { LinkChange } from "../dataplane.ts";
import { keepWatching } from "../keep-watching.ts";
import type { LinkStates } from "./link-states.ts";
import { requireDone, type VppContext, VppRequests } from "./requests.ts";

const LIMIT_MS = 5_000;
/** Most look-ups without an answer; a restart of VPP brings one for each port. */
const MAX_LOOKUPS = 4096;

/**
 * {@link Dataplane.watchLinks}: VPP reports every change of an interface as it happens.
 * @param states kept up to date
 */
export async function watchLinks(
  { client, logger }: Pick<VppContext, "client" | "logger">,
  states: LinkStates,
  onLink: (change: LinkChange) => void,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  const report = (changes: readonly LinkChange[]) => {
    if (!signal.aborted) for (const change of changes) onLink(change);
  };
  const watchOnce = async (onSeen: () => void) => {
    const connection = await client.connection(signal);
    try {
      await follow(connection, states, report, onSeen, signal);
    } finally {
      if (connection.lost.aborted) report(states.lost());
    }
  };
  const warning = "guests that come or go are not seen for now";
  await keepWatching(watchOnce, { warning, clock, logger, signal });
}

/** @throws Failure when the connection is lost, the signal fires, or VPP reports more than can be looked up */
async function follow(
  connection: VppConnection,
  states: LinkStates,
  report: (changes: readonly LinkChange[]) => void,
  onSeen: () => void,
  signal: AbortSignal,
): Promise<void> {
  const over = new AbortController();
  const stop = ({ reason }: AbortSignal) => over.abort(reason);
  whenAborted(connection.lost, () => stop(connection.lost));
  whenAborted(signal, () => stop(signal));
  const limited = () => new VppRequests(connection, within(over.signal, LIMIT_MS));
  connection.on(interfaceEvent, (event) => {
    if (over.signal.aborted) return;
    const found = states.apply(event);
    if (!("index" in found)) report(found);
    else if (states.waiting > MAX_LOOKUPS) over.abort(flooded());
    else {
      limited()
        .interface(found.index)
        .then((row) => report(states.read(found, row)))
        .catch((failure) => over.abort(failure));
    }
  });
  const wanted = await limited().request(wantInterfaceEvents, { enable_disable: 1, pid: process.pid });
  if (wanted.retval !== EVENTS_WANTED) requireDone(wanted.retval, "want_interface_events");
  const all = { sw_if_index: ANY_INDEX, name_filter_valid: false, name_filter: "" };
  report(states.look(await limited().dump(dumpInterfaces, all)));
  onSeen();
  await new Promise((_, reject) => {
    whenAborted(over.signal, () => reject(over.signal.reason));
  });
}

function flooded(): Failure {
  return new Failure({
    code: "dataplane-protocol",
    what: `VPP reported changes of more than ${MAX_LOOKUPS} interfaces that it does not list`,
    fix: "find out what changes VPP's interfaces (vppctl show api clients)",
  });
}
