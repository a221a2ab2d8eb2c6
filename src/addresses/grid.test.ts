import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatPrefix, isInPrefix, parseAddress, parsePrefix } from "./address.ts";
import { blockAt, blockOf, blocksInOrder, blocksOf, numberOfBlock } from "./grid.ts";
import { RangeSet } from "./range-set.ts";
import { parseRange, rangeOf } from "./subnet.ts";

const LENGTHS = { ipv4: 28, ipv6: 122 };

function addresses(...texts: readonly string[]): RangeSet {
  return RangeSet.of(texts.flatMap((text) => parseRange(text) ?? []));
}

function take(count: number, numbers: Iterable<bigint>): bigint[] {
  const taken: bigint[] = [];
  for (const number of numbers) if (taken.push(number) === count) break;
  return taken;
}

describe("the grid of a space", () => {
  it("has one block for every address, and the block's number leads back to it", () => {
    fc.assert(
      fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (text) => {
        const address = parseAddress(text);
        if (address === undefined) return;
        const block = blockOf(address, LENGTHS);
        expect(isInPrefix(block, address)).toBe(true);
        expect(block.length).toBe(LENGTHS[address.family]);
        expect(blockAt(numberOfBlock(block), address.family, LENGTHS)).toEqual(block);
      }),
    );
  });

  it("counts the blocks that have an address of a set, and no others", () => {
    const numbers = blocksOf(addresses("10.0.0.14-10.0.0.17", "10.0.0.20", "10.0.1.0/27"), "ipv4", LENGTHS);
    const blocks = [...numbers.values()].map((number) => formatPrefix(blockAt(number, "ipv4", LENGTHS)));
    expect(blocks).toEqual(["10.0.0.0/28", "10.0.0.16/28", "10.0.1.0/28", "10.0.1.16/28"]);
  });

  it("has 2^58 blocks in a /64", () => {
    expect(blocksOf(addresses("2001:db8::/64"), "ipv6", LENGTHS).size).toBe(1n << 58n);
  });
});

describe("the order in which a node tries blocks", () => {
  it("comes to each block once", () => {
    fc.assert(
      fc.property(fc.bigInt(0n, 300n), fc.string(), (count, node) => {
        const blocks = RangeSet.of([
          { first: 7n, last: 6n + count },
          { first: 1000n, last: 999n + count },
        ]);
        const order = [...blocksInOrder(blocks, node)];
        expect(order.toSorted((one, other) => Number(one - other))).toEqual([...blocks.values()]);
      }),
    );
  });

  it("is the same for a node at each call, and another for other nodes", () => {
    const blocks = blocksOf(addresses("10.0.0.0/16"), "ipv4", LENGTHS);
    const first = (node: string) => take(1, blocksInOrder(blocks, node))[0];
    expect(take(50, blocksInOrder(blocks, "node-1"))).toEqual(take(50, blocksInOrder(blocks, "node-1")));
    const starts = new Set(Array.from({ length: 100 }, (_, index) => first(`node-${index}`)));
    expect(starts.size).toBeGreaterThan(90);
  });

  it("begins in another place at each call in a large IPv6 network", () => {
    const prefix = parsePrefix("2001:db8::/64");
    const blocks = blocksOf(RangeSet.of(prefix === undefined ? [] : [rangeOf(prefix)]), "ipv6", LENGTHS);
    let calls = 0;
    const random = () => calls++ / 100;
    const found = Array.from({ length: 20 }, () => take(3, blocksInOrder(blocks, "node-1", random))).flat();
    expect(new Set(found).size).toBe(60);
    expect(found.every((number) => blocks.has(number))).toBe(true);
  });
});
