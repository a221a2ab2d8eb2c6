import { Failure } from "../../../failure/failure.ts";
import type { RowChange } from "../../../protocols/ovsdb/monitor.ts";
import type { LinkChange } from "../../dataplane.ts";
import { isOurs } from "../ports/marks.ts";
import { linkTable } from "../tables.ts";

interface PortLink {
  readonly port: string;
  /** Up only where the bridge has a number for the port. */
  readonly link: LinkChange["link"];
  /** OpenFlow number in its bridge. */
  readonly number: number | undefined;
}

/** The links of this node's ports by the database, over all connections to it. */
export class PortLinks {
  readonly #node: string;
  /** By uuid of the Interface row, as a port that was recreated is another; undefined before the first rows. */
  #known: ReadonlyMap<string, PortLink> | undefined;
  /** Whether the next changes are all rows that there are. */
  #isComplete = true;

  /** @param node whose marks a port must carry */
  constructor(node: string) {
    this.#node = node;
  }

  disconnected(): void {
    this.#isComplete = true;
  }

  /**
   * The OpenFlow number of a port of ours whose guest is there; undefined where it is not.
   * @throws Failure dataplane-unavailable while there is no connection to the database
   */
  numberOf(name: string): number | undefined {
    if (this.#isComplete) {
      throw new Failure({
        code: "dataplane-unavailable",
        what: `whether the guest behind port ${name} is there is unknown: the switch's database cannot be reached`,
      });
    }
    const known = [...(this.#known?.values() ?? [])];
    return known.find(({ port, link }) => port === name && link === "up")?.number;
  }

  /**
   * Applies changes and gives the links that changed; the first rows ever show no change. Changes of other tables do
   * not count.
   * @throws Failure dataplane-protocol for a row that cannot be read
   */
  apply(changes: readonly RowChange[]): readonly LinkChange[] {
    const before = this.#known;
    const after = new Map(this.#isComplete ? [] : before);
    for (const { table, uuid, new: row } of changes) {
      if (table !== linkTable.name) continue;
      const now = row === undefined ? undefined : this.#read(row, before?.get(uuid));
      if (now === undefined) after.delete(uuid);
      else after.set(uuid, now);
    }
    this.#known = after;
    this.#isComplete = false;
    return before === undefined ? [] : linkChanges(before, after);
  }

  /** A database that restarts has no state until the switch writes it again: the state from before holds on. */
  #read(row: Readonly<Record<string, unknown>>, before: PortLink | undefined): PortLink | undefined {
    const { name: port, link_state: state, ofport, external_ids: ids } = linkTable.parse(row);
    if (!isOurs(ids, this.#node)) return undefined;
    const number = ofport === undefined || ofport < 0 ? undefined : ofport;
    if (state === undefined && before !== undefined) return { ...before, number: number ?? before.number };
    return { port, link: state === "up" && number !== undefined ? "up" : "down", number };
  }
}

/** A new port counts as down before, one that is gone as down now. Downs come first. */
function linkChanges(
  before: ReadonlyMap<string, PortLink>,
  after: ReadonlyMap<string, PortLink>,
): readonly LinkChange[] {
  const up = (known: ReadonlyMap<string, PortLink>) => [...known].filter(([, { link }]) => link === "up");
  const left = up(before).filter(([uuid]) => after.get(uuid)?.link !== "up");
  const came = up(after).filter(([uuid]) => before.get(uuid)?.link !== "up");
  return [
    ...left.map(([, { port }]): LinkChange => ({ port, link: "down" })),
    ...came.map(([, { port }]): LinkChange => ({ port, link: "up" })),
  ];
}
