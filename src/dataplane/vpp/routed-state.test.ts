import { describe, expect, it } from "vitest";
import { addressOf, canonical } from "./routed-state.ts";

describe("an address in VPP's form", () => {
  it.each([
    "10.9.0.1",
    "fd09::5",
    "::",
    "::1",
    "fd00::",
    "1:2:3:4:5:6:7:8",
    "fe80::1:0:0:7",
    "2001:db8::1:0",
  ])("is printed as it is written: %s", (text) => {
    const printed = canonical(text);
    expect(addressOf(printed)).toEqual(addressOf(text));
    expect(printed.length).toBeLessThanOrEqual(text.length);
  });

  it("is the same however it is written, and IPv4's is no IPv6's", () => {
    expect(canonical("fd09:0:0::5")).toBe(canonical("FD09::0005"));
    expect(canonical("0.0.0.0")).not.toBe(canonical("::"));
  });
});
