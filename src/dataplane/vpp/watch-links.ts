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
import type { VppContext } from "./context.ts";
import type { LinkEvent, LinkStates } from "./link-states.ts";
import { requireDone } from "./require-done.ts";

const LIMIT_MS = 5_000;

/**
 * {@link Dataplane.watchLinks}: VPP tells of every change of an interface as it happens.
 * @param states kept up to date
 */
export async function watchLinks(
  { client, logger }: Pick<VppContext, "client" | "logger">,
  states: LinkStates,
  onLink: (change: LinkChange) => void,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  const tell = (changes: readonly LinkChange[]) => {
    if (!signal.aborted) for (const change of changes) onLink(change);
  };
  const live = async (onSeen: () => void) => {
    const connection = await client.connection(signal);
    try {
      await follow(connection, states, tell, onSeen, signal);
    } finally {
      if (connection.lost.aborted) tell(states.lost());
    }
  };
  await keepWatching(live, { warning: "guests that come or go are not seen for now", clock, logger, signal });
}

/** @throws Failure when the connection is lost, or the signal fires */
async function follow(
  connection: VppConnection,
  states: LinkStates,
  tell: (changes: readonly LinkChange[]) => void,
  onSeen: () => void,
  signal: AbortSignal,
): Promise<void> {
  const over = AbortSignal.any([signal, connection.lost]);
  const limited = () => within(over, LIMIT_MS);
  const rows = (sw_if_index: number) =>
    connection.dump(dumpInterfaces, { sw_if_index, name_filter_valid: false, name_filter: "" }, limited());
  const { promise: broken, reject } = Promise.withResolvers<never>();
  broken.catch(() => undefined);
  const take = async (event: LinkEvent) => {
    const changes = states.take(event);
    if (typeof changes !== "function") tell(changes);
    else {
      const [row] = await rows(event.sw_if_index);
      tell(changes(row));
    }
  };
  connection.on(interfaceEvent, (event) => {
    if (!over.aborted) take(event).catch(reject);
  });
  const asked = await connection.request(
    wantInterfaceEvents,
    { enable_disable: 1, pid: process.pid },
    limited(),
  );
  if (asked.retval !== EVENTS_WANTED) requireDone(asked.retval, "want_interface_events");
  tell(states.look(await rows(ANY_INDEX)));
  onSeen();
  await Promise.race([broken, whenFired(over)]);
}

function whenFired(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    whenAborted(signal, () =>
      reject(
        signal.reason instanceof Failure
          ? signal.reason
          : new Failure({ code: "dataplane-unavailable", what: "VPP is not watched any more" }),
      ),
    );
  });
}
