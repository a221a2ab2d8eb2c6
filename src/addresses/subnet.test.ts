import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatAddress, parseAddress, parsePrefix } from "./address.ts";
import { isRangeInPrefix, parseRange, usableAddresses } from "./subnet.ts";

interface Rest {
  readonly ranges?: readonly string[];
  readonly exclude?: readonly string[];
  readonly gateway?: string;
}

function usable(cidr: string, { ranges = [], exclude = [], gateway }: Rest): string[] {
  const prefix = parsePrefix(cidr);
  if (prefix === undefined) throw new Error(`${cidr} is not a network`);
  const all = (texts: readonly string[]) =>
    texts.map((text) => {
      const range = parseRange(text);
      if (range === undefined) throw new Error(`${text} is not a range`);
      return range;
    });
  const set = usableAddresses({
    prefix,
    ranges: all(ranges),
    exclude: all(exclude),
    gateway: gateway === undefined ? undefined : parseAddress(gateway),
  });
  return [...set.values()].map((value) => formatAddress({ family: prefix.family, value }));
}

describe("the addresses of a subnet that hosts can get", () => {
  it.each([
    ["10.0.0.0/29", {}, ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]],
    ["10.0.0.0/29", { gateway: "10.0.0.1", exclude: ["10.0.0.3-10.0.0.5"] }, ["10.0.0.2", "10.0.0.6"]],
    [
      "10.0.0.0/24",
      { ranges: ["10.0.0.0/30", "10.0.0.254-10.0.0.255"] },
      ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.254"],
    ],
    [
      "10.0.0.0/24",
      { ranges: ["10.0.0.9", "10.0.0.8-10.0.0.10"], exclude: ["10.0.0.10"] },
      ["10.0.0.8", "10.0.0.9"],
    ],
    ["10.0.0.0/30", { exclude: ["10.0.0.0/30"] }, []],
    ["10.0.0.4/31", {}, ["10.0.0.4", "10.0.0.5"]],
    ["10.0.0.4/32", {}, ["10.0.0.4"]],
    ["fd00::/126", {}, ["fd00::1", "fd00::2", "fd00::3"]],
    ["fd00::/127", { gateway: "fd00::" }, ["fd00::1"]],
    ["fd00::8/128", {}, ["fd00::8"]],
  ] as const)("%s with %j", (cidr, rest, expected) => {
    expect(usable(cidr, rest)).toEqual(expected);
  });

  it("of a /64 are all but the first", () => {
    const prefix = parsePrefix("2001:db8::/64");
    expect(prefix && usableAddresses({ prefix }).size).toBe((1n << 64n) - 1n);
  });
});

describe("a range of addresses", () => {
  it.each([
    "",
    "10.0.0.9-10.0.0.8",
    "10.0.0.1-fd00::1",
    "10.0.0.1-",
    "-10.0.0.1",
    "10.0.0.1-10.0.0.2-10.0.0.3",
    "10.0.0.1 - 10.0.0.2",
    "10.0.0.1/24",
  ])("is not %j", (text) => {
    expect(parseRange(text)).toBeUndefined();
  });

  it("is in a network exactly when each of its addresses is", () => {
    const network = parsePrefix("10.0.0.16/28");
    if (network === undefined) throw new Error("not a network");
    const small = fc.integer({ min: 0, max: 60 });
    fc.assert(
      fc.property(small, small, (first, length) => {
        const range = parseRange(`10.0.0.${first}-10.0.0.${first + length}`);
        if (range === undefined) throw new Error("not a range");
        expect(isRangeInPrefix(network, range)).toBe(first >= 16 && first + length < 32);
      }),
    );
  });
});
