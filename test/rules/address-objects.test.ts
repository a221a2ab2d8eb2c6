import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { newAllocation } from "../../src/address-objects/address-allocation.ts";
import { newBlock } from "../../src/address-objects/address-block.ts";
import { poolStatusUpdate } from "../../src/address-objects/address-pool.ts";
import { newSpace } from "../../src/address-objects/address-space.ts";
import * as resources from "../../src/address-objects/resources.ts";
import { parseAddress, parsePrefix } from "../../src/addresses/address.ts";
import { claimKey } from "../../src/claims/claim-name.ts";
import { definitionFiles, openManifestCheck } from "../manifests/check-manifest.ts";
import type { Manifest } from "../manifests/manifest.ts";

const check = openManifestCheck();
const definitions = definitionFiles().map(
  (file) => [basename(file), parse(readFileSync(file, "utf8")) as Manifest] as const,
);

describe("the definitions of IPAM objects", () => {
  it.each(definitions)("%s is what the API server's schemas allow", (_, definition) => {
    expect(check(definition)).toEqual([]);
    expect(definition.metadata.name).toBe(`${definition["spec"].names.plural}.${definition["spec"].group}`);
  });

  it("are those of the resources that the programs use", () => {
    const { ADDRESS_SPACES, ADDRESS_POOLS, ADDRESS_BLOCKS, ADDRESS_ALLOCATIONS, NAMESPACED_POOLS } =
      resources;
    const used = [ADDRESS_SPACES, ADDRESS_POOLS, ADDRESS_BLOCKS, ADDRESS_ALLOCATIONS, NAMESPACED_POOLS];
    const defined = definitions.map(([, { spec }]) => ({
      group: spec.group,
      version: spec.versions[0].name,
      plural: spec.names.plural,
    }));
    expect(defined).toEqual(expect.arrayContaining(used));
    expect(defined).toHaveLength(used.length);
    const namespaced = definitions.filter(([, { spec }]) => spec.scope === "Namespaced");
    expect(namespaced.map(([, { spec }]) => spec.names.plural)).toEqual([NAMESPACED_POOLS.plural]);
  });

  it("take the same subnets for a pool of a namespace as for one of the cluster", () => {
    const keysOf = (kind: string) => {
      const [, definition] = definitions.find(([, { spec }]) => spec.names.kind === kind) ?? [];
      return definition?.["spec"].versions[0].schema.openAPIV3Schema.properties.spec.properties;
    };
    const { subnets, cooldownSeconds } = keysOf("AddressPool");
    expect(keysOf("NamespacedAddressPool")).toEqual({ subnets, cooldownSeconds });
  });

  it("bound every list and every text, so that no object comes near what etcd stores", () => {
    const unbounded = definitions.flatMap(([name, { spec }]) =>
      unboundedIn(spec.versions[0].schema.openAPIV3Schema, name),
    );
    expect(unbounded).toEqual([]);
  });
});

describe("what the programs write", () => {
  const prefix = parsePrefix("fd00::40/122");
  const address = parseAddress("fd00::41");
  if (prefix === undefined || address === undefined) throw new Error("not parsed");
  const identity = { name: "blue", uid: "u", resourceVersion: "1", isDeleting: false, createdAt: undefined };
  const node = { kind: "Node", name: "n1", uid: "u1", journal: "j1" } as const;
  const owner = {
    ...{ kind: "Pod", namespace: "ns", name: "p", uid: "u2" },
    ...{ network: "blue", interface: "net1", container: "c1" },
  };
  const claim = {
    ...{ kind: "IPAMClaim", namespace: "n".repeat(63), name: "v".repeat(253) },
    ...{ uid: "u3", network: "blue" },
  };
  const space = "default";

  it.each([
    ["a space", newSpace(space)],
    ["a node's block", newBlock({ space, prefix, owner: node, state: "Bound", pool: "blue" })],
    [
      "a shared block",
      newBlock({ space, prefix, owner: { kind: "Shared" }, state: "Bound", pool: undefined }),
    ],
    ["an allocation", newAllocation({ space, pool: "blue", address, node: "n1", owner, key: "k" })],
    [
      "an allocation for a claim with the longest names",
      newAllocation({
        space,
        pool: "blue",
        address,
        node: undefined,
        owner: claim,
        key: claimKey({ sticky: "Key" }, claim),
      }),
    ],
  ])("of %s is what the definition allows", (_, object) => {
    expect(check(object as unknown as Manifest)).toEqual([]);
  });

  it("of a pool's status is what the definition allows", () => {
    const changed = { reason: "Ok", message: "", lastTransitionTime: "2026-11-01T10:00:00Z" };
    const condition = { type: "Ready", status: "True", ...changed } as const;
    const counts = { total: Number.MAX_SAFE_INTEGER, inBlocks: 0, used: 0, free: 0, blocks: 0 };
    const object = poolStatusUpdate(identity, { ...counts, conditions: [condition] });
    const spec = { subnets: [{ cidr: "fd00::/64" }] };
    expect(check({ ...object, spec } as unknown as Manifest)).toEqual([]);
  });
});

interface Schema {
  readonly type?: string;
  readonly maxItems?: number;
  readonly maxLength?: number;
  readonly enum?: readonly unknown[];
  readonly format?: string;
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
}

/** Paths of lists and texts that may have any length. */
function unboundedIn(schema: Schema, path: string): readonly string[] {
  const { type, items, properties = {} } = schema;
  const isBounded =
    type === "array"
      ? schema.maxItems !== undefined
      : type !== "string" ||
        [schema.maxLength, schema.enum, schema.format].some((bound) => bound !== undefined);
  return [
    ...(isBounded ? [] : [path]),
    ...(items === undefined ? [] : unboundedIn(items, `${path}[]`)),
    ...Object.entries(properties).flatMap(([key, one]) => unboundedIn(one, join(path, key))),
  ];
}
