import { describe, expect, it } from "vitest";
import { LINKS } from "../../diagnosis/link.ts";
import type { PageInterface } from "../page-shape.ts";
import { segmentsOf } from "./segments.ts";

const WHOLE: PageInterface = {
  ...{ name: "net1", device: "d", health: "healthy", socket: "socket", portName: "vhu1" },
  port: { name: "vhu1", bridge: "br0", socketPath: "/s", link: "up", connected: true },
};
const { port: _, ...GONE } = WHOLE;

describe("the lines of an interface", () => {
  it("are whole where everything is", () => {
    expect(segmentsOf(WHOLE)).toEqual({ states: { socket: "ok", peer: "ok", port: "ok" } });
  });

  it.each(LINKS)("have a mark where the chain breaks at %s", (name) => {
    for (const health of ["broken", "degraded"] as const) {
      const { states, mark } = segmentsOf({ ...WHOLE, health, broken: { name, what: "x" } });
      expect(mark).toMatchObject({ name, health });
      expect(states[mark?.at ?? "socket"]).toBe(health === "broken" ? "broken" : "waiting");
      expect(Object.values(states).filter((state) => state !== "ok")).toHaveLength(1);
    }
  });

  it("are not known where there is nothing to show", () => {
    const broken = { health: "broken", broken: { name: "port", what: "x" } } as const;
    expect(segmentsOf({ ...GONE, ...broken }).states).toEqual({
      socket: "ok",
      peer: "unknown",
      port: "broken",
    });
    expect(segmentsOf({ ...GONE, portUnknown: "no answer" }).states).toMatchObject({
      peer: "unknown",
      port: "unknown",
    });
    expect(segmentsOf({ ...WHOLE, socket: "missing" }).states.socket).toBe("unknown");
  });

  it("wait for a peer and its queues", () => {
    const port = { ...(WHOLE.port as NonNullable<PageInterface["port"]>), link: "down" } as const;
    expect(segmentsOf({ ...WHOLE, port }).states.peer).toBe("waiting");
    expect(segmentsOf({ ...WHOLE, port: { ...port, error: "no memory" } }).states.port).toBe("broken");
  });
});
