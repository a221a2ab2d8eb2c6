import { isIP } from "node:net";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  formatAddress,
  formatPrefix,
  isInPrefix,
  lastOf,
  type Prefix,
  parseAddress,
  parsePrefix,
  prefixOf,
} from "./address.ts";

/** An address and its canonical text, by the URL parser of Node, which follows RFC 5952. */
const ipv6 = fc
  .ipV6()
  .map((text) => ({ text, canonical: new URL(`http://[${text}]`).hostname.slice(1, -1) }));

function prefix(text: string): Prefix {
  const found = parsePrefix(text);
  if (found === undefined) throw new Error(`${text} is not a network`);
  return found;
}

describe("an address", () => {
  it("has one text, whatever form it was read in", () => {
    fc.assert(
      fc.property(ipv6, ({ text, canonical }) => {
        const address = parseAddress(text);
        if (/^::ffff:[^:]+:[^:]+$/.test(canonical)) expect(address).toBeUndefined();
        else expect(address && formatAddress(address)).toBe(canonical);
      }),
    );
    fc.assert(
      fc.property(fc.ipV4(), (text) => {
        const address = parseAddress(text);
        expect(address && formatAddress(address)).toBe(text);
      }),
    );
  });

  it("is the number that its bytes are", () => {
    expect(parseAddress("10.9.0.255")).toEqual({ family: "ipv4", value: 0x0a0900ffn });
    expect(parseAddress("fd09::1:0:0:5")).toEqual({
      family: "ipv6",
      value: 0xfd09_0000_0000_0000_0001_0000_0000_0005n,
    });
  });

  it.each([
    "",
    "10.0.0",
    "10.0.0.01",
    "10.0.0.256",
    " 10.0.0.1",
    "10.0.0.1/24",
    "fe80::1%eth0",
    "::ffff:10.0.0.1",
    "::ffff:a00:1",
    "1::2::3",
    "localhost",
  ])("is not %j", (text) => {
    expect(parseAddress(text)).toBeUndefined();
  });

  it("is never read from a text that Node's parser refuses", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(..."0123456789af.:/%- ") }), (text) => {
        if (isIP(text) === 0) expect(parseAddress(text)).toBeUndefined();
      }),
    );
  });
});

describe("a network", () => {
  it("has the addresses that have its first bits", () => {
    fc.assert(
      fc.property(fc.ipV4(), fc.ipV4(), fc.integer({ min: 0, max: 32 }), (one, other, length) => {
        const [own, another] = [parseAddress(one), parseAddress(other)];
        if (own === undefined || another === undefined) throw new Error("not parsed");
        const bits = (value: bigint) => value.toString(2).padStart(32, "0").slice(0, length);
        expect(isInPrefix(prefixOf(own, length), another)).toBe(bits(own.value) === bits(another.value));
      }),
    );
  });

  it("has a first and a last address", () => {
    expect(formatAddress({ family: "ipv6", value: lastOf(prefix("2001:db8::/64")) })).toBe(
      "2001:db8::ffff:ffff:ffff:ffff",
    );
    expect(lastOf(prefix("10.0.0.8/32"))).toBe(prefix("10.0.0.8/32").value);
    expect(lastOf(prefix("::/0"))).toBe((1n << 128n) - 1n);
    expect(formatPrefix(prefix("FD00:0:0::/48"))).toBe("fd00::/48");
  });

  it("has no address of the other family", () => {
    expect(isInPrefix(prefix("::/0"), { family: "ipv4", value: 5n })).toBe(false);
  });

  it.each([
    "10.0.0.5/24",
    "10.0.0.0",
    "10.0.0.0/33",
    "10.0.0.0/024",
    "10.0.0.0/",
    "fd00::/129",
    "fd00::1/64",
    "/8",
  ])("is not %j", (text) => {
    expect(parsePrefix(text)).toBeUndefined();
  });
});
