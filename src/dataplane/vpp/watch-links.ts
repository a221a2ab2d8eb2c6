import { Failure } from "../../failure/failure.ts";
import type { VppConnection } from "../../protocols/vpp-api/connection.ts";
import type { ValuesOf } from "../../protocols/vpp-api/fields.ts";
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
import { isOfNode, parseMark } from "./mark.ts";
import { requireDone, type VppContext, VppRequests } from "./requests.ts";
import { type Interface, LINK_UP } from "./view.ts";

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

/** What is read of an interface. */
type Row = Pick<Interface, "sw_if_index" | "flags" | "tag">;

/** What an event says of an interface. */
type LinkEvent = Pick<ValuesOf<(typeof interfaceEvent)["layout"]>, "sw_if_index" | "flags" | "deleted">;

/** An interface; `port` is undefined where it is not of this node's ports. */
interface Known {
  readonly port: string | undefined;
  readonly isUp: boolean;
}

/** An interface that is to be read, for {@link LinkStates.read}. */
export interface Lookup {
  readonly index: number;
}

/** The links of this node's ports as VPP reports them, over all connections to it. */
export class LinkStates {
  readonly #node: string;
  /** By the interface's number, which another interface may have after it was deleted. */
  #known = new Map<number, Known>();
  /** By the interface's number: what was asked before its last event is out of date. */
  readonly #lookups = new Map<number, Lookup>();
  #isFirstLook = true;

  /** @param node whose marks a port must carry */
  constructor(node: string) {
    this.#node = node;
  }

  /** Look-ups without an answer. */
  get waiting(): number {
    return this.#lookups.size;
  }

  /** The interface of a port whose guest is there; undefined where it is not, or is not known to be. */
  indexOf(name: string): number | undefined {
    return [...this.#known].find(([, { port, isUp }]) => isUp && port === name)?.[0];
  }

  /** All interfaces that there are: what came and went since the last look; of the first look ever nothing. */
  look(rows: readonly Row[]): readonly LinkChange[] {
    const before = this.#known;
    this.#known = new Map(rows.map((row) => [row.sw_if_index, this.#stateOf(row)]));
    const isSilent = this.#isFirstLook;
    this.#isFirstLook = false;
    if (isSilent) return [];
    const ups = (known: ReadonlyMap<number, Known>) => [...known].filter(([, { isUp }]) => isUp);
    return [
      ...ups(before).flatMap(([index, was]) =>
        isSame(this.#known.get(index), was) ? [] : changeOf(was, "down"),
      ),
      ...ups(this.#known).flatMap(([index, is]) => (isSame(before.get(index), is) ? [] : changeOf(is, "up"))),
    ];
  }

  /**
   * The connection was lost, and with VPP every guest's: one that is back at the next read has connected again, also
   * where it has the interface's number of before.
   */
  lost(): readonly LinkChange[] {
    const were = [...this.#known.values()].filter(({ isUp }) => isUp);
    this.#known.clear();
    this.#lookups.clear();
    return were.flatMap((was) => changeOf(was, "down"));
  }

  /** What an event changes; for an interface that is not known, the look-up that it needs. */
  apply({ sw_if_index: index, flags, deleted }: LinkEvent): readonly LinkChange[] | Lookup {
    const was = this.#known.get(index);
    if (deleted) {
      this.#known.delete(index);
      this.#lookups.delete(index);
      return was?.isUp === true ? changeOf(was, "down") : [];
    }
    if (was === undefined) {
      const lookup = { index };
      this.#lookups.set(index, lookup);
      return lookup;
    }
    const isUp = (flags & LINK_UP) !== 0;
    this.#known.set(index, { ...was, isUp });
    // VPP reports what is, not what happened: one that is up and reported again may have been down in between.
    if (isUp) return changeOf(was, "up");
    return was.isUp ? changeOf(was, "down") : [];
  }

  /** What a look-up found; nothing where another event of the interface has overtaken it. */
  read(lookup: Lookup, row: Row | undefined): readonly LinkChange[] {
    if (this.#lookups.get(lookup.index) !== lookup) return [];
    this.#lookups.delete(lookup.index);
    if (row === undefined) return [];
    const is = this.#stateOf(row);
    this.#known.set(lookup.index, is);
    return is.isUp ? changeOf(is, "up") : [];
  }

  #stateOf({ flags, tag }: Row): Known {
    const mark = parseMark(tag);
    return { port: isOfNode(mark, this.#node) ? mark?.name : undefined, isUp: (flags & LINK_UP) !== 0 };
  }
}

const isSame = (one: Known | undefined, other: Known) => one?.isUp === other.isUp && one.port === other.port;

function changeOf({ port }: Known, link: LinkChange["link"]): readonly LinkChange[] {
  return port === undefined ? [] : [{ port, link }];
}
