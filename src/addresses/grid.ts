import { createHash } from "node:crypto";
import { ADDRESS_BITS, type Address, type Family, type Prefix, prefixOf } from "./address.ts";
import { RangeSet } from "./range-set.ts";

/** Length of the prefix of a space's blocks. Blocks of a space lie on one grid: two of them are equal or disjoint. */
export type BlockPrefixes = Readonly<Record<Family, number>>;

/** The block that an address is in. */
export function blockOf(address: Address, blockPrefixes: BlockPrefixes): Prefix {
  return prefixOf(address, blockPrefixes[address.family]);
}

/** Numbers of the blocks that have an address of the set; see {@link blockAt}. */
export function blocksOf(addresses: RangeSet, family: Family, blockPrefixes: BlockPrefixes): RangeSet {
  const hostBits = BigInt(ADDRESS_BITS[family] - blockPrefixes[family]);
  return RangeSet.of(
    addresses.ranges.map(({ first, last }) => ({ first: first >> hostBits, last: last >> hostBits })),
  );
}

/** The block with a number: blocks of a family are numbered from 0, in the order of their addresses. */
export function blockAt(number: bigint, family: Family, blockPrefixes: BlockPrefixes): Prefix {
  const length = blockPrefixes[family];
  return { family, value: number << BigInt(ADDRESS_BITS[family] - length), length };
}

/** A block's number. */
export function numberOfBlock({ family, value, length }: Prefix): bigint {
  return value >> BigInt(ADDRESS_BITS[family] - length);
}

/** From this many blocks on a new place at random is more likely to be free than the next one of a fixed order. */
const MANY_BLOCKS = 65_536n;

/**
 * The blocks of a set in the order in which a node tries to take them, each once. The order comes from the node's name, so
 * that nodes seldom try the same blocks; in a large set it also differs at each call, so that a node does not walk over
 * the blocks that it took before.
 */
export function* blocksInOrder(
  blocks: RangeSet,
  nodeName: string,
  random: () => number = Math.random,
): Generator<bigint, void> {
  const { size } = blocks;
  if (size === 0n) return;
  const seed = size < MANY_BLOCKS ? nodeName : `${nodeName}/${random()}`;
  const [start, step] = [hashOf(`start/${seed}`) % size, stepFor(size, hashOf(`step/${seed}`) % size)];
  // A step without a common divisor with the size comes to each index once.
  for (let count = 0n; count < size; count++) {
    const block = blocks.at((start + count * step) % size);
    if (block !== undefined) yield block;
  }
}

function stepFor(size: bigint, wanted: bigint): bigint {
  let step = wanted;
  while (divisor(step, size) !== 1n) step++;
  return step;
}

function divisor(one: bigint, other: bigint): bigint {
  return other === 0n ? one : divisor(other, one % other);
}

function hashOf(text: string): bigint {
  return BigInt(`0x${createHash("sha256").update(text).digest("hex")}`);
}
