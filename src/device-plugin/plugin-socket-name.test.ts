import { describe, expect, it } from "vitest";
import { pluginSocketName } from "./plugin.ts";

describe("a plugin's socket name", () => {
  it("shows the resource and is the same every time", () => {
    expect(pluginSocketName("vhostuser/sockets")).toMatch(/^vhu-sockets-[0-9a-f]{8}\.sock$/);
    expect(pluginSocketName("vhostuser/sockets")).toBe(pluginSocketName("vhostuser/sockets"));
  });

  it("differs for every resource, also where only the position of the slash differs", () => {
    const names = ["a-b/c", "a/b-c", "a/b.c", "a/b_c", "a/b-C", "b/b-c"].map(pluginSocketName);
    expect(new Set(names).size).toBe(names.length);
  });

  it("is a short plain file name for the longest resource", () => {
    const name = pluginSocketName(`${"d".repeat(200)}/${"n".repeat(63)}`);
    expect(name).toMatch(/^[a-zA-Z0-9-]+\.sock$/);
    expect(name.length).toBeLessThanOrEqual(40);
  });
});
