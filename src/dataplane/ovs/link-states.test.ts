import { describe, expect, it } from "vitest";
import type { RowChange } from "../../protocols/ovsdb/monitor.ts";
import { LinkStates } from "./link-states.ts";

const NODE = "node-a";

/** A row as the database tells it; an empty set is a state that nobody has written yet. */
function row(
  name: string,
  state: "up" | "down" | undefined,
  ids: Record<string, string> = {},
  ofport: unknown = 7,
): RowChange {
  const marks = { owner: "kube-vhostuser", node: NODE, ...ids };
  return {
    table: "Interface",
    uuid: `uuid-of-${name}`,
    new: { name, link_state: state ?? ["set", []], ofport, external_ids: ["map", Object.entries(marks)] },
  };
}
const gone = (name: string): RowChange => ({ table: "Interface", uuid: `uuid-of-${name}`, old: {} });
const up = (port: string) => ({ port, link: "up" });
const down = (port: string) => ({ port, link: "down" });

/** States that have seen these rows first. */
function having(...rows: RowChange[]): LinkStates {
  const states = new LinkStates(NODE);
  expect(states.take(rows), "the first look shows no change").toEqual([]);
  return states;
}

describe("links of our ports by what the database tells", () => {
  it("come up and go down", () => {
    const states = having(row("one", "up"), row("two", "down"));
    expect(states.take([row("two", "up")])).toEqual([up("two")]);
    expect(states.take([row("two", "up")])).toEqual([]);
    expect(states.take([row("one", "down")])).toEqual([down("one")]);
    expect(states.take([row("one", "up")])).toEqual([up("one")]);
  });

  it("of a new port come up once, when its guest comes", () => {
    const states = having();
    expect(states.take([row("one", undefined)])).toEqual([]);
    expect(states.take([row("one", "down")])).toEqual([]);
    expect(states.take([row("one", "up")])).toEqual([up("one")]);
  });

  it("go down with the port", () => {
    const states = having(row("one", "up"), row("two", "down"));
    expect(states.take([gone("one"), gone("two")])).toEqual([down("one")]);
  });

  it("are down before they are up where a port is made anew under its name", () => {
    const states = having(row("one", "up"));
    expect(states.take([{ ...row("one", "up"), uuid: "another" }, gone("one")])).toEqual([
      down("one"),
      up("one"),
    ]);
  });

  it("are not told of ports that are not ours, or not any more", () => {
    const states = having(row("one", "up"));
    expect(states.take([row("foreign", "up", { owner: "somebody" })])).toEqual([]);
    expect(states.take([row("neighbour", "up", { node: "node-b" })])).toEqual([]);
    expect(states.take([row("one", "up", { owner: "somebody" })])).toEqual([down("one")]);
  });

  it("tell after a lost connection what changed meanwhile, and nothing else", () => {
    const states = having(row("stays", "up"), row("comes", "down"), row("leaves", "up"), row("ends", "up"));
    states.lost();
    expect(
      states.take([row("stays", "up"), row("comes", "up"), row("leaves", "down"), row("new", "up")]),
    ).toEqual([down("leaves"), down("ends"), up("comes"), up("new")]);
  });

  it("stay as they were while a restarted database does not know them yet", () => {
    const states = having(row("one", "up"));
    states.lost();
    expect(states.take([row("one", undefined)])).toEqual([]);
    expect(states.take([row("one", "up")])).toEqual([]);
  });

  it("are up only with a number, which is told as long as they are up", () => {
    const states = having(row("one", "down"));
    expect(states.take([row("one", "up", {}, ["set", []])])).toEqual([]);
    expect(states.take([row("one", "up", {}, -1)])).toEqual([]);
    expect(states.numberOf("one")).toBe(undefined);
    expect(states.take([row("one", "up", {}, 8)])).toEqual([up("one")]);
    expect(states.numberOf("one")).toBe(8);
    expect(states.take([row("one", "up", {}, 9)])).toEqual([]);
    expect(states.numberOf("one")).toBe(9);
    states.lost();
    expect(() => states.numberOf("one")).toThrow("the switch's database is away");
    states.take([row("one", undefined, {}, ["set", []])]);
    expect(states.numberOf("one")).toBe(9);
    states.take([row("one", "down", {}, 9)]);
    expect(states.numberOf("one")).toBe(undefined);
  });

  it("are refused where a row is not what the schema says", () => {
    const states = having();
    expect(() => states.take([{ table: "Interface", uuid: "one", new: { name: 7 } }])).toThrow(
      "an Interface row that we cannot read",
    );
  });
});
