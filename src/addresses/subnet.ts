import {
  ADDRESS_BITS,
  type Address,
  type Family,
  formatAddress,
  isInPrefix,
  lastOf,
  type Prefix,
  parseAddress,
  parsePrefix,
} from "./address.ts";
import { type Range, RangeSet } from "./range-set.ts";

/** Addresses of one family, from first to last. */
export interface AddressRange extends Range {
  readonly family: Family;
}

/** Parses `10.0.0.4-10.0.0.9`, `10.0.0.0/28` or a single address; undefined for other texts. */
export function parseRange(text: string): AddressRange | undefined {
  const prefix = parsePrefix(text);
  if (prefix !== undefined) return rangeOf(prefix);
  const [from = "", to = from, ...rest] = text.split("-");
  const [first, last] = [parseAddress(from), parseAddress(to)];
  if (rest.length > 0 || first?.family !== last?.family) return undefined;
  if (first === undefined || last === undefined || first.value > last.value) return undefined;
  return { family: first.family, first: first.value, last: last.value };
}

/** A range in the form of {@link parseRange}. */
export function formatRange({ family, first, last }: AddressRange): string {
  const texts = [first, last].map((value) => formatAddress({ family, value }));
  return first === last ? String(texts[0]) : texts.join("-");
}

/** All addresses of a network. */
export function rangeOf(prefix: Prefix): AddressRange {
  return { family: prefix.family, first: prefix.value, last: lastOf(prefix) };
}

/** Whether all addresses of a range are of the network. */
export function isRangeInPrefix(prefix: Prefix, { family, first, last }: AddressRange): boolean {
  return isInPrefix(prefix, { family, value: first }) && last <= lastOf(prefix);
}

/**
 * The addresses of a subnet that hosts can get: not an IPv4 network's first and last one (RFC 1122 section 3.2.1.3;
 * RFC 3021 makes /31 an exception), not an IPv6 subnet's first one, which is the routers' anycast address (RFC 4291
 * section 2.6.1; RFC 6164 makes /127 an exception), and not the gateway.
 * @param ranges only these; all where absent or empty
 */
export function usableAddresses(subnet: {
  readonly prefix: Prefix;
  readonly ranges?: readonly Range[];
  readonly exclude?: readonly Range[];
  readonly gateway?: Address | undefined;
}): RangeSet {
  const { prefix, ranges = [], exclude = [], gateway } = subnet;
  const isPointToPoint = prefix.length >= ADDRESS_BITS[prefix.family] - 1;
  const { first, last } = rangeOf(prefix);
  const hosts = isPointToPoint
    ? { first, last }
    : { first: first + 1n, last: prefix.family === "ipv4" ? last - 1n : last };
  const wanted = ranges.length === 0 ? RangeSet.of([hosts]) : RangeSet.of(ranges).clip(hosts);
  const router = gateway === undefined ? [] : [{ first: gateway.value, last: gateway.value }];
  return wanted.minus(RangeSet.of([...exclude, ...router]));
}
