import { z } from "zod";
import { Failure } from "../../failure/failure.ts";
import type { RowChange } from "../../protocols/ovsdb/monitor.ts";
import { optionalShape, stringMapShape } from "../../protocols/ovsdb/values.ts";
import type { LinkChange } from "../dataplane.ts";
import { isOurs } from "./marks.ts";

const rowShape = z.object({
  name: z.string(),
  link_state: optionalShape(z.string()),
  ofport: optionalShape(z.number()),
  external_ids: stringMapShape,
});

/** Columns that {@link LinkStates} reads, by table. */
export const LINK_COLUMNS = { Interface: Object.keys(rowShape.shape) } as const;

/** What is known of one port; it is up only where the bridge has a number for it. */
interface PortLink {
  readonly port: string;
  readonly link: LinkChange["link"];
  /** OpenFlow number in its bridge. */
  readonly number: number | undefined;
}

/** The links of this node's ports as the database tells them, over all connections to it. */
export class LinkStates {
  readonly #node: string;
  /** By uuid of the Interface row: a port that is made anew is another. */
  #known = new Map<string, PortLink>();
  #isFirstLook = true;
  /** Whether the next changes are all rows that there are. */
  #isWhole = true;

  /** @param node whose marks a port must carry */
  constructor(node: string) {
    this.#node = node;
  }

  /** The connection was lost: the next changes are all rows that there are. */
  lost(): void {
    this.#isWhole = true;
  }

  /**
   * The OpenFlow number of a port of ours whose guest is there; undefined where it is not.
   * @throws Failure dataplane-unavailable while the database does not tell
   */
  numberOf(name: string): number | undefined {
    if (this.#isWhole) {
      throw new Failure({
        code: "dataplane-unavailable",
        what: `whether the guest behind port ${name} is there is not known: the switch's database is away`,
      });
    }
    return [...this.#known.values()].find(({ port, link }) => port === name && link === "up")?.number;
  }

  /**
   * Takes changes over and gives what came of them; of the first rows ever, which show no change, nothing.
   * @throws Failure dataplane-protocol for a row that cannot be read
   */
  take(changes: readonly RowChange[]): readonly LinkChange[] {
    const before = this.#known;
    const after = this.#isWhole ? new Map<string, PortLink>() : new Map(before);
    for (const { uuid, new: row } of changes) {
      const now = row === undefined ? undefined : this.#read(row, before.get(uuid));
      if (now === undefined) after.delete(uuid);
      else after.set(uuid, now);
    }
    this.#known = after;
    const isSilent = this.#isFirstLook;
    this.#isFirstLook = false;
    this.#isWhole = false;
    return isSilent ? [] : differences(before, after);
  }

  /** The database forgets the state when it restarts, and the switch does not when its database does. */
  #read(row: Readonly<Record<string, unknown>>, before: PortLink | undefined): PortLink | undefined {
    const parsed = rowShape.safeParse(row);
    if (!parsed.success) {
      throw new Failure({
        code: "dataplane-protocol",
        what: `the switch's database told of an Interface row that we cannot read: ${parsed.error.message}`,
        cause: parsed.error,
      });
    }
    const { name: port, link_state: state, ofport, external_ids: ids } = parsed.data;
    if (!isOurs(ids, this.#node)) return undefined;
    const number = ofport === undefined || ofport < 0 ? undefined : ofport;
    if (state === undefined && before !== undefined) return { ...before, number: number ?? before.number };
    return { port, link: state === "up" && number !== undefined ? "up" : "down", number };
  }
}

/** What is new is told if it is up, what is gone if it was: the others were down and are. Downs come first. */
function differences(
  before: ReadonlyMap<string, PortLink>,
  after: ReadonlyMap<string, PortLink>,
): readonly LinkChange[] {
  const isUp = (known: PortLink | undefined) => known?.link === "up";
  const left = [...before].filter(([uuid, was]) => isUp(was) && !isUp(after.get(uuid)));
  const came = [...after].filter(([uuid, is]) => isUp(is) && !isUp(before.get(uuid)));
  return [
    ...left.map(([, { port }]): LinkChange => ({ port, link: "down" })),
    ...came.map(([, { port }]): LinkChange => ({ port, link: "up" })),
  ];
}
