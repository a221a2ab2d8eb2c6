import * as z from "zod";
import type { BlockPrefixes } from "../addresses/grid.ts";
import type { KubeObject } from "../kube-api/client.ts";
import { headOf, type ObjectIdentity, parseObject } from "./fields.ts";

/** Within a space an address has one owner. The length of its blocks never changes. */
export interface AddressSpace extends ObjectIdentity {
  readonly blockPrefixes: BlockPrefixes;
}

const schema = z.looseObject({
  spec: z.looseObject({
    blockPrefixes: z.looseObject({
      ipv4: z.int().min(20).max(32),
      ipv6: z.int().min(112).max(128),
    }),
  }),
});

/** @throws Failure `invalid-address-object` */
export function parseAddressSpace(object: unknown): AddressSpace {
  const { content, ...identity } = parseObject("AddressSpace", schema, object);
  const { ipv4, ipv6 } = content.spec.blockPrefixes;
  return { ...identity, blockPrefixes: { ipv4, ipv6 } };
}

/** The object of a space with the API server's default length of blocks. */
export function newSpace(name: string): KubeObject {
  return { ...headOf("AddressSpace", name), spec: {} };
}
