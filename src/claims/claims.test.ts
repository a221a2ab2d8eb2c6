import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { hashedPodInterfaceName } from "../names/interface-name.ts";
import { claimName } from "./claim-name.ts";
import { type ClaimCondition, parseIpamClaim, writeClaimStatus } from "./ipam-claim.ts";
import { parseLauncherPod } from "./launcher-pod.ts";
import { parseNetworkAttachment } from "./network-attachment.ts";
import { parseNetworkSelection } from "./network-selection.ts";
import { vmiInterfaceHash } from "./resources.ts";

const IDENTITY = { name: "vm.blue", namespace: "tenant", uid: "u1", resourceVersion: "7" };

function claim(more: { metadata?: object; spec?: object; status?: unknown } = {}) {
  return {
    metadata: { ...IDENTITY, ...more.metadata },
    spec: more.spec ?? { network: "blue-net", interface: "" },
    ...("status" in more && { status: more.status }),
  };
}

describe("the name of a claim is that of kubevirt/ipam-extensions", () => {
  it.each([
    ["vm", "blue", "vm.blue"],
    ["vm", "net_a", "vm.net.a"],
    ["VM", "Net_A", "vm.net.a"],
    ["vm.of.team", "-blue-", "vm.of.team.blue"],
    ["vm", "a__b", "vm.a.b"],
    ["v".repeat(250), "blue", `${"v".repeat(250)}.bl`],
  ])("%s and %s: %s", (vmi, network, name) => {
    expect(claimName(vmi, network)).toBe(name);
  });
});

describe("an IPAMClaim", () => {
  it("has no addresses before its status", () => {
    const parsed = parseIpamClaim(claim({ spec: { network: "blue-net" } }));
    expect(parsed).toMatchObject({ network: "blue-net", interface: "", ips: [], isDeleting: false });
    for (const status of [null, {}, { ips: null }, { ips: [] }])
      expect(parseIpamClaim(claim({ status })).ips).toEqual([]);
  });

  it("has addresses of both families with their prefix lengths, its owner and the pod", () => {
    const ownerReferences = [{ apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name: "vm", uid: "v1" }];
    const metadata = { ownerReferences, deletionTimestamp: "2026-11-01T10:00:00Z", finalizers: ["a/b"] };
    const status = { ips: ["10.0.0.4/24", "fd00::4/64"], ownerPod: { name: "p" } };
    const parsed = parseIpamClaim(claim({ metadata, status }));
    expect(parsed.ips).toEqual([
      { family: "ipv4", value: 0x0a000004n, length: 24 },
      { family: "ipv6", value: (0xfd00n << 112n) + 4n, length: 64 },
    ]);
    expect(parsed).toMatchObject({ owners: ownerReferences, isDeleting: true, ownerPod: "p" });
  });

  it.each(["10.0.0.4", "10.0.0.4/33", "10.0.0.4/", "10.0.0.4/24/1", "fd00::4/129", "010.0.0.4/24", "", 5])(
    "with the address %j is refused",
    (text) => {
      expect(() => parseIpamClaim(claim({ status: { ips: [text] } }))).toThrow(
        /invalid-address-object.*ips\.0/,
      );
    },
  );

  it("without a network or namespace is refused", () => {
    expect(() => parseIpamClaim(claim({ spec: {} }))).toThrow(/spec\.network/);
    expect(() => parseIpamClaim(claim({ metadata: { namespace: "" } }))).toThrow(/metadata\.namespace/);
  });

  it("keeps published addresses and what others wrote, whatever is written over it", async () => {
    const condition: ClaimCondition = {
      ...{ type: "IPsAllocated", status: "True", reason: "SuccessfulAllocation" },
      ...{ message: "", lastTransitionTime: "2026-11-01T10:00:00Z" },
    };
    const old = { type: "IPsAllocated", status: "False" };
    const written: unknown[] = [];
    const api = {
      update: async (...[resource, body]: [unknown, never]) => {
        written.push(resource, body);
        return body;
      },
    };
    const none = new AbortController().signal;
    const ips = [{ family: "ipv4", value: 0x0a000005n, length: 24 }] as const;
    const fresh = claim({ status: { ips: [], conditions: [{ type: "Other" }, old] } });
    await writeClaimStatus(api, fresh, { ips, ownerPod: "p", condition }, none);
    expect(written.splice(0)).toMatchObject([
      { plural: "ipamclaims", namespace: "tenant", subresource: "status" },
      {
        status: { ips: ["10.0.0.5/24"], ownerPod: { name: "p" }, conditions: [{ type: "Other" }, condition] },
      },
    ]);
    const published = claim({ status: { ips: ["10.0.0.4/24"], ownerPod: { name: "p" }, more: 1 } });
    await writeClaimStatus(api, published, { ips, ownerPod: "q" }, none);
    expect(written[1]).toMatchObject({
      metadata: { resourceVersion: "7" },
      status: { ips: ["10.0.0.4/24"], ownerPod: { name: "q" }, more: 1 },
    });
  });
});

describe("a pod's network selection", () => {
  const parse = (text: unknown) =>
    parseNetworkSelection(typeof text === "string" ? text : JSON.stringify(text), "tenant", "p");

  it("is a list of names, with or without namespace and interface", () => {
    expect(parse("blue, nets/red@net7 ,green@eth1")).toEqual([
      { namespace: "tenant", name: "blue", ips: [] },
      { namespace: "nets", name: "red", interface: "net7", ips: [] },
      { namespace: "tenant", name: "green", interface: "eth1", ips: [] },
    ]);
    expect(parse(" ")).toEqual([]);
  });

  it("is JSON, in which an element may refer to a claim", () => {
    expect(
      parse([
        { name: "blue", namespace: "nets", interface: "pod1", mac: "x", "ipam-claim-reference": "vm.blue" },
        { name: "red", ips: ["10.0.0.7"], "cni-args": {} },
      ]),
    ).toEqual([
      { namespace: "nets", name: "blue", interface: "pod1", claim: "vm.blue", ips: [] },
      { namespace: "tenant", name: "red", ips: ["10.0.0.7"] },
    ]);
  });

  it.each([
    ["no JSON", "[{", "it is not JSON"],
    ["no list", { name: "blue" }, "expected array"],
    ["null", [null], "expected object"],
    ["no name", [{ interface: "net1" }], "0.name"],
    [
      "an empty reference",
      [{ name: "blue", "ipam-claim-reference": "" }],
      "must be the name of an IPAMClaim",
    ],
    ["a path as reference", [{ name: "blue", "ipam-claim-reference": "../../x" }], "must be the name"],
    ["a number as reference", [{ name: "blue", "ipam-claim-reference": 5 }], "0.ipam-claim-reference"],
    ["a long reference", [{ name: "blue", "ipam-claim-reference": "a".repeat(254) }], "ipam-claim-reference"],
    [
      "a reference and addresses",
      [{ name: "blue", ips: ["10.0.0.7"], "ipam-claim-reference": "vm.blue" }],
      "network blue has both ips and ipam-claim-reference",
    ],
    ["a list with a hole", "blue,,red", '"" is not namespace/name@interface'],
    ["a path in a list", "../blue", "is not namespace/name@interface"],
    ["two slashes", "a/b/c", "is not namespace/name@interface"],
  ])("with %s is refused with what is wrong", (_what, annotation, message) => {
    expect(() => parse(annotation)).toThrow(
      expect.objectContaining({ code: "ipam-claim-refused", message: expect.stringContaining(message) }),
    );
  });

  it("never throws anything but that", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
        try {
          parse(text);
        } catch (error) {
          expect(error).toMatchObject({ code: "ipam-claim-refused" });
        }
      }),
    );
  });
});

describe("a NetworkAttachmentDefinition", () => {
  const parse = (config: unknown) =>
    parseNetworkAttachment({
      metadata: { namespace: "nets", name: "blue" },
      spec: { config: typeof config === "string" ? config : JSON.stringify(config) },
    });
  const ipam = { type: "kube-vhostuser-ipam", pools: ["v4", "v6"] };

  it("of one plugin", () => {
    const config = { name: "blue-net", type: "kube-vhostuser", allowPersistentIPs: true, ipam };
    expect(parse(config)).toMatchObject({
      ...{ network: "blue-net", allowPersistentIPs: true, pools: ["v4", "v6"], isAllowedAtTop: true },
    });
  });

  it("of a list of plugins has the key in the part that our plugin is given, and for kubevirt/ipam-extensions at the top", () => {
    const plugins = [{ type: "macvlan", ipam }, { type: "tuning" }];
    expect(parse({ name: "n", allowPersistentIPs: true, plugins })).toMatchObject({
      ...{ allowPersistentIPs: false, pools: ["v4", "v6"], isAllowedAtTop: true },
    });
    expect(parse({ name: "n", plugins: [{ ...plugins[0], allowPersistentIPs: true }] })).toMatchObject({
      ...{ allowPersistentIPs: true, isAllowedAtTop: false },
    });
  });

  it("of another IPAM, with ranges, or empty has no pools of ours", () => {
    for (const other of [
      { type: "whereabouts", pools: ["x"] },
      { type: "kube-vhostuser-ipam", ranges: [] },
    ])
      expect(parse({ name: "n", ipam: other }).pools).toBeUndefined();
    expect(parse("")).toMatchObject({ network: undefined, allowPersistentIPs: false, pools: undefined });
    expect(parse({ type: "bridge" }).network).toBeUndefined();
  });

  it.each([["{"], ["[]"], [{ allowPersistentIPs: "yes" }], ['"x"']])("with %j is refused", (config) => {
    expect(() => parse(config)).toThrow(/invalid-network-config: .*NetworkAttachmentDefinition nets\/blue/);
  });
});

describe("a launcher pod", () => {
  const labels = { "kubevirt.io": "virt-launcher", "kubevirt.io/created-by": "i1" };

  it("has the whole name of its VMI, however its own was cut", () => {
    const vmi = `${"long-".repeat(20)}name`;
    const annotations = { "kubevirt.io/domain": vmi };
    expect(parseLauncherPod({ name: "virt-launcher-long-x2b7q", labels, annotations })).toEqual({
      ...{ vmi, vmiUid: "i1" },
    });
    const ownerReferences = [{ kind: "VirtualMachineInstance", name: vmi, uid: "i2" }];
    expect(parseLauncherPod({ labels, ownerReferences })).toEqual({ vmi, vmiUid: "i2" });
  });

  it("is no other pod, whatever its name and annotations say", () => {
    const annotations = { "kubevirt.io/domain": "vm" };
    expect(parseLauncherPod({ name: "virt-launcher-vm-x2b7q", annotations })).toBeUndefined();
    expect(parseLauncherPod({ labels })).toBeUndefined();
    expect(parseLauncherPod({ labels: null, annotations: null })).toBeUndefined();
  });

  it("finds its claim by a label, which is another for every VMI and network", () => {
    const hashes = [
      vmiInterfaceHash("vm", hashedPodInterfaceName("a")),
      vmiInterfaceHash("vm", hashedPodInterfaceName("b")),
      vmiInterfaceHash("vm2", hashedPodInterfaceName("a")),
      vmiInterfaceHash("v".repeat(253), hashedPodInterfaceName("a")),
    ];
    expect(new Set(hashes).size).toBe(hashes.length);
    for (const hash of hashes) expect(hash).toMatch(/^[0-9a-f]{32}$/);
  });
});
