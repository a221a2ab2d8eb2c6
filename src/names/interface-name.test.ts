import { describe, expect, it } from "vitest";
import { isInterfaceName } from "./interface-name.ts";

describe("an interface's name", () => {
  it.each(["net1", "pod37a8eec1ce1", "eth0.100", "-", "Straße", "網路"])("may be %s", (name) => {
    expect(isInterfaceName(name)).toBe(true);
  });

  it.each(["", ".", "..", "a/b", "a:b", "a b", "sixteen-bytes-xx", "網路網路網路"])(
    "may not be %j",
    (name) => {
      expect(isInterfaceName(name)).toBe(false);
    },
  );

  it.each([
    ...[
      "\0",
      "\u0007",
      "\u001b",
      "\u007f",
      "\u0085",
      "\u00a0",
      "\u00ad",
      "\u061c",
      "\u180e",
      "\u200b",
      "\u200d",
    ],
    ...[
      "\u200e",
      "\u2028",
      "\u2029",
      "\u202a",
      "\u202e",
      "\u2060",
      "\u2066",
      "\u2069",
      "\ufeff",
      "\ufff9",
      "\ue000",
    ],
    ...["\u{e0001}", "\ud800"],
  ])("has no control or format character, blank or half a character: %j", (character) => {
    expect(isInterfaceName(`net${character}1`)).toBe(false);
  });
});
