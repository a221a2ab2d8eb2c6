import type { Answered } from "../../protocols/vpp-api/call.ts";
import type { dumpInterfaces } from "../../protocols/vpp-api/messages.ts";
import type { LinkChange } from "../dataplane.ts";
import { isOfNode, parseMark } from "./mark.ts";
import { LINK_UP } from "./port-state.ts";

/** What is looked at of an interface. */
type Row = Pick<Answered<typeof dumpInterfaces>, "sw_if_index" | "flags" | "tag">;

/** An interface; `port` is undefined where it is none of this node's ports. */
interface Known {
  readonly port: string | undefined;
  readonly isUp: boolean;
}

/** What an event says of an interface. */
export interface LinkEvent {
  readonly sw_if_index: number;
  readonly flags: number;
  readonly deleted: boolean;
}

/** The links of this node's ports as VPP tells them, over all connections to it. */
export class LinkStates {
  readonly #node: string;
  /** By the interface's number, which another interface may have after it was deleted. */
  #known: ReadonlyMap<number, Known> = new Map();
  /** Events so far: what was asked before the last one of an interface is out of date. */
  readonly #events = new Map<number, number>();
  #isFirstLook = true;

  /** @param node whose marks a port must carry */
  constructor(node: string) {
    this.#node = node;
  }

  /** The interface of a port whose guest is there; undefined where it is not, or is not known to be. */
  indexOf(name: string): number | undefined {
    return [...this.#known].find(([, { port, isUp }]) => isUp && port === name)?.[0];
  }

  /** All interfaces that there are: what came and went since the last look; of the first look ever nothing. */
  look(rows: readonly Row[]): readonly LinkChange[] {
    const before = this.#known;
    this.#known = new Map(rows.map((row) => [row.sw_if_index, this.#read(row)]));
    const isSilent = this.#isFirstLook;
    this.#isFirstLook = false;
    if (isSilent) return [];
    const ups = (known: ReadonlyMap<number, Known>) => [...known.entries()].filter(([, one]) => one.isUp);
    return [
      ...ups(before).flatMap(([index, was]) =>
        isSame(this.#known.get(index), was) ? [] : told(was, "down"),
      ),
      ...ups(this.#known).flatMap(([index, is]) => (isSame(before.get(index), is) ? [] : told(is, "up"))),
    ];
  }

  /**
   * The connection was lost, and with VPP every guest's: one that is back at the next look has come anew, also where it
   * has the interface's number of before.
   */
  lost(): readonly LinkChange[] {
    const were = [...this.#known.values()].filter(({ isUp }) => isUp);
    this.#known = new Map();
    return were.flatMap((was) => told(was, "down"));
  }

  /**
   * Takes an event.
   * @returns what it changes, or, of an interface that is not known, a function that takes what was then asked about it
   */
  take({
    sw_if_index: index,
    flags,
    deleted,
  }: LinkEvent): readonly LinkChange[] | ((row: Row | undefined) => readonly LinkChange[]) {
    const count = (this.#events.get(index) ?? 0) + 1;
    this.#events.set(index, count);
    const was = this.#known.get(index);
    if (deleted) {
      this.#set(index, undefined);
      return was?.isUp === true ? told(was, "down") : [];
    }
    if (was === undefined) {
      return (row) => {
        if (row === undefined || this.#events.get(index) !== count) return [];
        const is = this.#read(row);
        this.#set(index, is);
        return is.isUp ? told(is, "up") : [];
      };
    }
    const isUp = (flags & LINK_UP) !== 0;
    this.#set(index, { ...was, isUp });
    // VPP tells what is, not what happened: one that is up and told again may have been down in between.
    if (isUp) return told(was, "up");
    return was.isUp ? told(was, "down") : [];
  }

  #set(index: number, known: Known | undefined): void {
    const after = new Map(this.#known);
    if (known === undefined) after.delete(index);
    else after.set(index, known);
    this.#known = after;
  }

  #read({ flags, tag }: Row): Known {
    const mark = parseMark(tag);
    return { port: isOfNode(mark, this.#node) ? mark?.name : undefined, isUp: (flags & LINK_UP) !== 0 };
  }
}

const isSame = (one: Known | undefined, other: Known) => one?.isUp === other.isUp && one.port === other.port;

function told({ port }: Known, link: LinkChange["link"]): readonly LinkChange[] {
  return port === undefined ? [] : [{ port, link }];
}
