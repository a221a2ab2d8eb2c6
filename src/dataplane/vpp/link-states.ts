import type { Answered } from "../../protocols/vpp-api/call.ts";
import type { dumpInterfaces } from "../../protocols/vpp-api/messages.ts";
import type { LinkChange } from "../dataplane.ts";
import { isOfNode, parseMark } from "./mark.ts";
import { LINK_UP } from "./port-state.ts";

/** What is read of an interface. */
type Row = Pick<Answered<typeof dumpInterfaces>, "sw_if_index" | "flags" | "tag">;

/** What an event says of an interface. */
export interface LinkEvent {
  readonly sw_if_index: number;
  readonly flags: number;
  readonly deleted: boolean;
}

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
   * The connection was lost, and with VPP every guest's: one that is back at the next look has connected again, also
   * where it has the interface's number of before.
   */
  lost(): readonly LinkChange[] {
    const were = [...this.#known.values()].filter(({ isUp }) => isUp);
    this.#known.clear();
    this.#lookups.clear();
    return were.flatMap((was) => changeOf(was, "down"));
  }

  /** What an event changes, or the look-up that it takes, of an interface that is not known. */
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
