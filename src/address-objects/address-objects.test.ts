import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatAddress, formatPrefix, parseAddress, parsePrefix } from "../addresses/address.ts";
import { blockOf } from "../addresses/grid.ts";
import type { KubeObject } from "../kube-api/client.ts";
import { changedAllocation, newAllocation, parseAddressAllocation } from "./address-allocation.ts";
import { type BlockContent, changedBlock, newBlock, parseAddressBlock } from "./address-block.ts";
import { boundedCount, parseAddressPool, subnetOfAddress } from "./address-pool.ts";
import { parseAddressSpace } from "./address-space.ts";
import { allocationName, blockName, keyHash, nodeHash, selectorOf } from "./resources.ts";

const DNS_SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const LENGTHS = { ipv4: 28, ipv6: 122 };

/** What the API server makes of an object. */
function stored(object: { readonly metadata: object; readonly spec?: unknown }, name?: string) {
  const added = { uid: "u1", resourceVersion: "7", creationTimestamp: "2026-11-01T10:00:00Z" };
  const spec = object.spec as object;
  return {
    ...object,
    spec,
    metadata: { ...added, ...object.metadata, ...(name && { name }) } as KubeObject["metadata"],
  };
}

function pool(spec: object) {
  return parseAddressPool(stored({ metadata: {}, spec }, "blue"));
}

function address(text: string) {
  const found = parseAddress(text);
  if (found === undefined) throw new Error(`${text} is not an address`);
  return found;
}

describe("names of blocks and allocations", () => {
  it("are names that Kubernetes accepts, and different for different addresses", () => {
    fc.assert(
      fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), fc.oneof(fc.ipV4(), fc.ipV6()), (one, other) => {
        const [own, another] = [parseAddress(one), parseAddress(other)];
        if (own === undefined || another === undefined) return;
        expect(allocationName("default", own)).toMatch(DNS_SUBDOMAIN);
        expect(blockName("default", blockOf(own, LENGTHS))).toMatch(DNS_SUBDOMAIN);
        expect(allocationName("default", own) === allocationName("default", another)).toBe(
          formatAddress(own) === formatAddress(another),
        );
      }),
    );
  });

  it("have an x for the double colon of an IPv6 address, because a name cannot end with a hyphen", () => {
    const [ipv4, ipv6] = [parsePrefix("10.0.0.16/28"), parsePrefix("fd00::40/122")];
    expect(ipv4 && blockName("default", ipv4)).toBe("default.10-0-0-16.28");
    expect(ipv6 && blockName("blue", ipv6)).toBe("blue.fd00x40.122");
    expect(allocationName("default", address("10.0.0.1"))).toBe("default.10-0-0-1");
  });

  it("are found by labels of any node and key", () => {
    expect(selectorOf({ space: "default", node: nodeHash("n".repeat(253)) })).toMatch(
      /^ipam\.kube-vhostuser\.io\/space=default,ipam\.kube-vhostuser\.io\/node=[0-9a-f]{16}$/,
    );
    expect(keyHash("any key: 5")).toMatch(/^[0-9a-f]{32}$/);
  });
});

describe("a space", () => {
  it("has the length of its blocks", () => {
    const spec = { blockPrefixes: LENGTHS };
    expect(parseAddressSpace(stored({ metadata: { name: "default" }, spec })).blockPrefixes).toEqual(LENGTHS);
    const wrong = { blockPrefixes: { ipv4: 8, ipv6: 122 } };
    expect(() => parseAddressSpace(stored({ metadata: { name: "x" }, spec: wrong }))).toThrow(
      /invalid-address-object: spec\.blockPrefixes\.ipv4: .*AddressSpace x.*kubectl edit addressspace x/,
    );
  });
});

describe("a pool", () => {
  it("hands out what its subnets have, with each subnet's gateway", () => {
    const blue = pool({
      subnets: [
        { cidr: "10.0.0.0/24", gateway: "10.0.0.1", exclude: ["10.0.0.2-10.0.0.9"] },
        { cidr: "10.1.0.0/16", ranges: ["10.1.2.0/28"] },
      ],
      routes: [{ dst: "0.0.0.0/0", gw: "10.0.0.1" }],
    });
    expect(blue).toMatchObject({ space: "default", family: "ipv4", mode: "NodeBlocks", cooldownSeconds: 60 });
    expect(blue.usable.size).toBe(245n + 16n);
    const subnet = subnetOfAddress(blue, address("10.0.0.10"));
    expect(subnet && formatPrefix(subnet.prefix)).toBe("10.0.0.0/24");
    expect(subnet?.gateway).toEqual(address("10.0.0.1"));
    for (const other of ["10.0.0.1", "10.0.0.5", "10.1.3.0", "fd00::1"])
      expect(subnetOfAddress(blue, address(other))).toBeUndefined();
  });

  it("keeps keys that it does not know: they are of a later release", () => {
    expect(pool({ subnets: [{ cidr: "10.0.0.0/24", later: 1 }], later: 2 }).usable.size).toBe(254n);
  });

  it.each([
    [{ subnets: [] }, /spec\.subnets: must have a subnet/],
    [
      { subnets: [{ cidr: "10.0.0.5/24" }] },
      /spec\.subnets\.0\.cidr: "10\.0\.0\.5\/24" is not a network.*10\.0\.0\.0\/24/,
    ],
    [{ subnets: [{ cidr: "10.0.0.0/24" }, { cidr: "fd00::/64" }] }, /IPv4 or IPv6 subnets, not both/],
    [{ subnets: [{ cidr: "10.0.0.0/24" }, { cidr: "10.0.0.0/25" }] }, /two subnets overlap/],
    [
      { subnets: [{ cidr: "10.0.0.0/24", ranges: ["10.0.1.1"] }] },
      /ranges\.0: is not inside 10\.0\.0\.0\/24/,
    ],
    [{ subnets: [{ cidr: "10.0.0.0/24", exclude: ["10.0.0.9-10.0.0.1"] }] }, /exclude\.0: .* is not a range/],
    [{ subnets: [{ cidr: "10.0.0.0/24", gateway: "fd00::1" }] }, /gateway: is not inside/],
    [{ subnets: [{ cidr: "10.0.0.0/24" }], mode: "Other" }, /spec\.mode/],
  ])("is refused with %j", (spec, message) => {
    expect(() => pool(spec)).toThrow(message);
  });

  it("counts up to what JSON holds exactly", () => {
    expect([boundedCount(5n), boundedCount(1n << 64n)]).toEqual([5, Number.MAX_SAFE_INTEGER]);
  });
});

describe("a block", () => {
  const prefix = parsePrefix("10.0.0.16/28");
  if (prefix === undefined) throw new Error("not a network");
  const owner = { kind: "Node", name: "n1", uid: "node-uid", journal: "j1" } as const;
  const content: BlockContent = { space: "default", prefix, owner, state: "Bound", pool: "blue" };

  it("is read as it was written", () => {
    expect(parseAddressBlock(stored(newBlock(content)))).toMatchObject({
      ...content,
      used: undefined,
      uid: "u1",
    });
    const shared: BlockContent = { ...content, owner: { kind: "Shared" }, pool: undefined };
    expect(parseAddressBlock(stored(newBlock(shared)))).toMatchObject(shared);
  });

  it("is changed as it was read, with what a later release added", () => {
    const read = stored(newBlock(content));
    const changed = changedBlock({ ...read, spec: { ...read.spec, later: 1 } }, { state: "Quarantined" });
    expect(changed.metadata).toEqual(read.metadata);
    expect(changed["spec"]).toEqual({ ...read.spec, later: 1, state: "Quarantined" });
    expect(parseAddressBlock(changedBlock(read, { owner: { ...owner, journal: "j2" } })).owner).toEqual({
      ...owner,
      journal: "j2",
    });
  });

  it("is refused under another name, and with an unknown owner", () => {
    expect(() => parseAddressBlock(stored(newBlock(content), "default.10-0-0-0.28"))).toThrow(
      /the block of 10\.0\.0\.16\/28 must be named default\.10-0-0-16\.28/,
    );
    const read = stored(newBlock(content));
    expect(() => parseAddressBlock({ ...read, spec: { ...read.spec, owner: { kind: "Cloud" } } })).toThrow(
      /spec\.owner\.kind/,
    );
  });
});

describe("an allocation", () => {
  const owner = {
    ...{ kind: "Pod", namespace: "ns", name: "p", uid: "pod-uid" },
    ...{ network: "blue", interface: "net1", container: "c1" },
  };
  const content = {
    space: "default",
    pool: "blue",
    address: address("fd00::5"),
    node: "n1",
    owner,
    key: "db",
  };

  it("is read as it was written", () => {
    const object = stored(newAllocation(content));
    expect(parseAddressAllocation(object)).toMatchObject(content);
    expect(object.metadata).toMatchObject({ name: "default.fd00x5" });
  });

  it("that is sticky loses its owner and gets another", () => {
    const read = stored(newAllocation(content));
    const waiting = changedAllocation(read, { node: undefined, owner: undefined });
    expect(waiting["spec"]).toEqual({ space: "default", pool: "blue", address: "fd00::5", key: "db" });
    expect(parseAddressAllocation(waiting)).toMatchObject({ key: "db", node: undefined, owner: undefined });
    expect(changedAllocation(waiting, { node: "n1", owner })).toEqual(read);
  });

  it("is refused under another name", () => {
    expect(() => parseAddressAllocation(stored(newAllocation(content), "default.fd00x6"))).toThrow(
      /must be named/,
    );
  });

  it("keeps an owner of a kind that this release does not know", () => {
    const later = { ...content, owner: { ...owner, kind: "VirtualMachine" } };
    expect(parseAddressAllocation(stored(newAllocation(later))).owner?.kind).toBe("VirtualMachine");
  });
});
