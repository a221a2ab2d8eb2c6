import { describe, expect, it } from "vitest";
import type { RowChange } from "../../../protocols/ovsdb/monitor.ts";
import { PortLinks } from "./port-links.ts";

const NODE = "node-a";

/** A row as the database sends it; an empty set is a state that was not written yet. */
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
function having(...rows: RowChange[]): PortLinks {
  const states = new PortLinks(NODE);
  expect(states.apply(rows), "the first rows show no change").toEqual([]);
  return states;
}

describe("links of our ports, from the database's changes", () => {
  it("come up and go down", () => {
    const states = having(row("one", "up"), row("two", "down"));
    expect(states.apply([row("two", "up")])).toEqual([up("two")]);
    expect(states.apply([row("two", "up")])).toEqual([]);
    expect(states.apply([row("one", "down")])).toEqual([down("one")]);
    expect(states.apply([row("one", "up")])).toEqual([up("one")]);
  });

  it("of a new port come up once, when its guest comes", () => {
    const states = having();
    expect(states.apply([row("one", undefined)])).toEqual([]);
    expect(states.apply([row("one", "down")])).toEqual([]);
    expect(states.apply([row("one", "up")])).toEqual([up("one")]);
  });

  it("go down with the port", () => {
    const states = having(row("one", "up"), row("two", "down"));
    expect(states.apply([gone("one"), gone("two")])).toEqual([down("one")]);
  });

  it("are down before they are up where a port is recreated under its name", () => {
    const states = having(row("one", "up"));
    expect(states.apply([{ ...row("one", "up"), uuid: "another" }, gone("one")])).toEqual([
      down("one"),
      up("one"),
    ]);
  });

  it("do not include ports that are not ours, or no longer", () => {
    const states = having(row("one", "up"));
    expect(states.apply([row("foreign", "up", { owner: "another" })])).toEqual([]);
    expect(states.apply([row("neighbour", "up", { node: "node-b" })])).toEqual([]);
    expect(states.apply([row("one", "up", { owner: "another" })])).toEqual([down("one")]);
  });

  it("show after a lost connection what changed meanwhile, and nothing else", () => {
    const states = having(row("stays", "up"), row("comes", "down"), row("leaves", "up"), row("ends", "up"));
    states.disconnected();
    expect(
      states.apply([row("stays", "up"), row("comes", "up"), row("leaves", "down"), row("new", "up")]),
    ).toEqual([down("leaves"), down("ends"), up("comes"), up("new")]);
  });

  it("do not change while a restarted database does not know them yet", () => {
    const states = having(row("one", "up"));
    states.disconnected();
    expect(states.apply([row("one", undefined)])).toEqual([]);
    expect(states.apply([row("one", "up")])).toEqual([]);
  });

  it("are up only with a number, which is known as long as they are up", () => {
    const states = having(row("one", "down"));
    expect(states.apply([row("one", "up", {}, ["set", []])])).toEqual([]);
    expect(states.apply([row("one", "up", {}, -1)])).toEqual([]);
    expect(states.numberOf("one")).toBe(undefined);
    expect(states.apply([row("one", "up", {}, 8)])).toEqual([up("one")]);
    expect(states.numberOf("one")).toBe(8);
    expect(states.apply([row("one", "up", {}, 9)])).toEqual([]);
    expect(states.numberOf("one")).toBe(9);
    states.disconnected();
    expect(() => states.numberOf("one")).toThrow("the switch's database cannot be reached");
    states.apply([row("one", undefined, {}, ["set", []])]);
    expect(states.numberOf("one")).toBe(9);
    states.apply([row("one", "down", {}, 9)]);
    expect(states.numberOf("one")).toBe(undefined);
  });

  it("are refused where a row is not what the schema says", () => {
    const states = having();
    expect(() => states.apply([{ table: "Interface", uuid: "one", new: { name: 7 } }])).toThrow(
      "unreadable Interface row",
    );
  });
});
