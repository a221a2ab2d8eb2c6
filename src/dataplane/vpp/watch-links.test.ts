import { describe, expect, it } from "vitest";
import { nodeDigest } from "./mark.ts";
import { LinkStates, type Lookup } from "./watch-links.ts";

const tag = (port: string, node = "node-a") => `kvu1:${nodeDigest(node)}:0123456789ab:01234567:${port}`;
const row = (sw_if_index: number, port: string, up: boolean, node?: string) => ({
  sw_if_index,
  flags: up ? 3 : 1,
  tag: tag(port, node),
});
const event = (sw_if_index: number, up: boolean, deleted = false) => ({
  sw_if_index,
  flags: up ? 3 : 1,
  deleted,
});
/** States after a first look, which reports nothing. */
function seen(...rows: ReturnType<typeof row>[]): LinkStates {
  const states = new LinkStates("node-a");
  expect(states.look(rows)).toEqual([]);
  return states;
}
function lookupOf(states: LinkStates, of: ReturnType<typeof event>): Lookup {
  const lookup = states.apply(of);
  if ("index" in lookup) return lookup;
  throw new Error("nothing is to be looked up");
}
const up = (port: string) => ({ port, link: "up" });
const down = (port: string) => ({ port, link: "down" });

describe("links of VPP's interfaces", () => {
  it("are reported when they change, by the event alone where the interface is known", () => {
    const states = seen(row(1, "vhu1", false), row(2, "vhu2", true));
    expect(states.apply(event(1, true))).toEqual([up("vhu1")]);
    expect(states.indexOf("vhu1")).toBe(1);
    expect(states.apply(event(2, false))).toEqual([down("vhu2")]);
    expect(states.apply(event(2, false))).toEqual([]);
    expect(states.indexOf("vhu2")).toBeUndefined();
  });

  it("are reported again where one that is up may have been down in between", () => {
    expect(seen(row(1, "vhu1", true)).apply(event(1, true))).toEqual([up("vhu1")]);
  });

  it("are looked up where the interface is not known", () => {
    const states = seen();
    expect(states.read(lookupOf(states, event(1, true)), row(1, "vhu1", true))).toEqual([up("vhu1")]);
    expect(states.apply(event(1, false))).toEqual([down("vhu1")]);
    expect(states.waiting).toBe(0);
  });

  it("are not taken from an answer that an event has overtaken", () => {
    const states = seen();
    const [first, second] = [lookupOf(states, event(1, true)), lookupOf(states, event(1, false))];
    expect(states.read(first, row(1, "vhu1", true))).toEqual([]);
    expect(states.read(second, row(1, "vhu1", false))).toEqual([]);
    const third = lookupOf(states, event(2, true));
    expect(states.apply(event(2, false, true))).toEqual([]);
    expect(states.read(third, row(2, "vhu2", true))).toEqual([]);
    expect(states.indexOf("vhu2")).toBeUndefined();
  });

  it("are down when the interface is deleted, whose number another one may get", () => {
    const states = seen(row(1, "vhu1", true));
    expect(states.apply(event(1, false, true))).toEqual([down("vhu1")]);
    expect(states.read(lookupOf(states, event(1, true)), row(1, "vhu7", true))).toEqual([up("vhu7")]);
  });

  it("are compared when VPP is back, with what was before", () => {
    const states = seen(row(1, "vhu1", true), row(2, "vhu2", true), row(3, "vhu3", false));
    const after = [row(1, "vhu1", true), row(2, "vhu9", true), row(4, "vhu3", true)];
    expect(states.look(after)).toEqual([down("vhu2"), up("vhu9"), up("vhu3")]);
    expect(states.look([])).toEqual([down("vhu1"), down("vhu9"), down("vhu3")]);
  });

  it("are reported again after VPP was lost, also where all is as before", () => {
    const states = seen(row(1, "vhu1", true), row(2, "vhu2", false));
    expect(states.lost()).toEqual([down("vhu1")]);
    expect(states.indexOf("vhu1")).toBeUndefined();
    expect(states.look([row(1, "vhu1", true), row(2, "vhu2", false)])).toEqual([up("vhu1")]);
  });

  it("are not reported where they are not this node's", () => {
    const states = seen(row(1, "vhu1", false, "node-b"), { sw_if_index: 2, flags: 1, tag: "" });
    expect([states.apply(event(1, true)), states.apply(event(2, true))]).toEqual([[], []]);
    expect(states.look([])).toEqual([]);
  });
});
