import { expect, it } from "vitest";
import { similarKey } from "./similar-key.ts";

const KEYS = ["mtu", "vlan", "trunk", "bridge", "portSecurity", "bandwidth", "deviceID"];

it.each([
  ["portSecurty", "portSecurity"],
  ["bandwith", "bandwidth"],
  ["BandWidth", "bandwidth"],
  ["birdge", "bridge"],
  ["brdg", "bridge"],
  ["vlna", "vlan"],
  ["mut", "mtu"],
  ["deviceid", "deviceID"],
])("%s is a mistyped %s", (written, meant) => {
  expect(similarKey(written, KEYS)).toBe(meant);
});

it.each(["trust", "tap", "plan9", "spoofchk", "portSafety", ""])("%j is another key", (written) => {
  expect(similarKey(written, KEYS)).toBeUndefined();
});
