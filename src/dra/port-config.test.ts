import { describe, expect, it } from "vitest";
import {
  type ConfigWish,
  claimObject,
  DRIVER,
  portParameters as own,
} from "../../test/stand-in/dra/claim-object.ts";
import { CLAIM_DEFAULT_KEYS, CLAIM_KEYS } from "../config/claim-keys.ts";
import { parseClaim } from "./claim.ts";
import { portParameters, vhostUserPortSchema, withinBandwidth } from "./port-config.ts";

const OTHER = "ovsdpdk.k8snetworkplumbingwg.io";

/** What the first result of ours is to be. */
function parameters(
  config: readonly ConfigWish[],
  {
    request = "net",
    mayConfigure = CLAIM_DEFAULT_KEYS as readonly string[],
    drivers = [] as readonly string[],
  } = {},
) {
  const results = [{ request }, ...drivers.map((driver) => ({ driver, request: "another" }))];
  const object = claimObject({ name: "c", uid: "u", results, config });
  const claim = parseClaim(object, { namespace: "ns", name: "c", uid: "u" });
  const [result] = claim.results;
  if (result === undefined) throw new Error("no result");
  return portParameters(claim, result, mayConfigure);
}
const ofClass = (keys: object, requests?: readonly string[]): ConfigWish => ({
  ...{ source: "FromClass", parameters: own(keys) },
  ...(requests && { requests }),
});
const ofClaim = (keys: object, requests?: readonly string[]): ConfigWish => ({
  ...ofClass(keys, requests),
  source: "FromClaim",
});
const ofOther = (keys: object, source: ConfigWish["source"] = "FromClass"): ConfigWish => ({
  ...{ source, driver: OTHER },
  parameters: { apiVersion: `${OTHER}/v1alpha1`, kind: "OvsPortConfig", ...keys },
});

describe("a port's parameters", () => {
  it("come from the class, then key by key from the claim, in whatever order they are listed", () => {
    expect(parameters([])).toEqual({});
    const config = [ofClaim({ mtu: 9000 }), ofClass({ mtu: 1500, vlan: 10 }), ofClass({ vlan: 20 })];
    expect(parameters(config)).toEqual({ mtu: 9000, vlan: 20 });
  });

  it("are those for the request, its subrequest, or all requests", () => {
    const config = [
      ofClass({ vlan: 1 }, []),
      ofClass({ mtu: 1400 }, ["net"]),
      ofClass({ mtu: 1500 }, ["net/small"]),
      ofClass({ mtu: 9000 }, ["net/large", "other"]),
    ];
    expect(parameters(config)).toEqual({ vlan: 1, mtu: 1400 });
    expect(parameters(config, { request: "net/small" })).toEqual({ vlan: 1, mtu: 1500 });
    expect(parameters(config, { request: "net/large" })).toEqual({ vlan: 1, mtu: 9000 });
    expect(parameters(config, { request: "third" })).toEqual({ vlan: 1 });
  });

  it("are not those of other drivers, whatever these are", () => {
    const parameters_ = { anything: [1] };
    const config: ConfigWish = { source: "FromClass", driver: "gpu.example.com", parameters: parameters_ };
    expect(parameters([config])).toEqual({});
  });

  it.each([
    [
      "trunks",
      /trunks: there is no such key \(claim ns\/c, request net, configuration of its DeviceClass\); write trunk/,
    ],
    ["colour", /colour: there is no such key .*; docs\/dra.md has every key/],
  ])("name an unknown key: %s", (key, text) => {
    expect(() => parameters([ofClass({ [key]: 1 })])).toThrow(text);
  });

  it.each([
    { apiVersion: `${DRIVER}/v1alpha1`, kind: "Other" },
    { apiVersion: `${DRIVER}/v2`, kind: "VhostUserPort" },
    { kind: "VhostUserPort" },
    null,
    "text",
  ])("must be of a known kind and version: %j", (wrong) => {
    expect(() => parameters([{ source: "FromClass", parameters: wrong as object }])).toThrow(
      /^invalid-claim: /,
    );
  });

  it("name a value that is wrong", () => {
    expect(() => parameters([ofClaim({ mtu: 12 })])).toThrow(
      /invalid-claim: mtu: .*configuration of its author/,
    );
  });

  it.each(CLAIM_KEYS.filter((key) => !(CLAIM_DEFAULT_KEYS as readonly string[]).includes(key)))(
    "do not have %s of a claim where the pool does not allow it",
    (key) => {
      const values: Readonly<Record<string, unknown>> = {
        ...{ bridge: "b", vlan: 1, vlanMode: "access", trunk: [{ id: 1 }], customerVlans: [{ id: 1 }] },
        ...{ qinqEthertype: "802.1ad", mode: "l2", vrf: 1, bandwidth: {}, ifaceId: "i", ipam: { type: "x" } },
        ...{ name: "blue", dns: { nameservers: ["10.0.0.53"] } },
        ...{ excessBandwidth: { rate: 1, burst: 1 }, txRetriesMax: 1, rxqAffinity: "0:1", externalIds: {} },
      };
      const config = ofClaim({ [key]: values[key] ?? true });
      expect(() => parameters([config])).toThrow(`a claim may not set ${key} here`);
      expect(Object.keys(parameters([config], { mayConfigure: [key] }))).toEqual([key]);
      expect(Object.keys(parameters([{ ...config, source: "FromClass" }]))).toEqual([key]);
    },
  );

  it("keep what a class sets of VLANs, limits and security, also where a claim may set the key or one beside it", () => {
    const mayConfigure = [...CLAIM_KEYS];
    const refused = (inClass: object, inClaim: object) =>
      expect(() => parameters([ofClass(inClass), ofClaim(inClaim)], { mayConfigure })).toThrow(
        /but its DeviceClass sets/,
      );
    refused({ vlan: 10 }, { vlan: 11 });
    refused({ vlan: 10 }, { trunk: [{ id: 20 }], vlanMode: "native-tagged" });
    refused({ portSecurity: true }, { portSecurity: false });
    refused({ bandwidth: { ingressRate: 1, ingressBurst: 1 } }, { excessBandwidth: { rate: 1, burst: 1 } });
    refused({ mode: "l3" }, { vrf: 3 });
    refused({ ipam: { type: "host-local" } }, { name: "other" });
    refused({ ipam: { type: "host-local" } }, { dns: { nameservers: ["10.0.0.53"] } });
    expect(parameters([ofClass({ vlan: 10 }), ofClaim({ vlan: 10 })])).toEqual({ vlan: 10 });
  });

  it("may be of the other driver's kind, so that its claims and classes work as they are", () => {
    const policing = { max_rate: 1_000, burst: 100 };
    const bandwidth = { egressRate: 1_000_000, egressBurst: 100_000 };
    expect(parameters([ofOther({ vlan: 7, policing })])).toEqual({ vlan: 7, bandwidth });
    const { parameters: keys } = ofOther({ policing: { max_rate: 1_000 } });
    expect(parameters([{ source: "FromClass", parameters: keys }])).toEqual({
      bandwidth: { ...bandwidth, egressBurst: 8_000_000 },
    });
    expect(parameters([ofOther({ policing: { max_rate: 0 } })])).toEqual({});
    expect(() => parameters([ofOther({ vlan: 7 }, "FromClaim")])).toThrow("a claim may not set vlan here");
    expect(() => parameters([ofOther({ Vlan: 7 })])).toThrow("Vlan: there is no such key");
    // It has a device of the claim itself, and what is meant for it is no business of ours.
    expect(parameters([ofOther({ vlan: 7 })], { drivers: [OTHER] })).toEqual({});
  });

  it("have the bandwidth that the request takes as limits, where class and claim set no lower ones", () => {
    const limits = (keys: object, bandwidth: number) =>
      withinBandwidth(parameters([ofClass(keys)]), { bandwidth }, "claim ns/c").bandwidth;
    const low = { ingressRate: 2_000, ingressBurst: 100 };
    expect(limits({}, 0)).toBeUndefined();
    expect(limits({ bandwidth: low }, 0)).toEqual(low);
    expect(limits({}, 10_000_000_000)).toEqual({
      ...{ ingressRate: 10_000_000_000, ingressBurst: 1_000_000_000 },
      ...{ egressRate: 10_000_000_000, egressBurst: 1_000_000_000 },
    });
    const rest = { egressRate: 3_000, egressBurst: 8_000_000 };
    expect(limits({ bandwidth: low }, 3_000)).toEqual({ ...low, ...rest });
    expect(limits({ bandwidth: low, excessBandwidth: { rate: 1_000, burst: 1 } }, 3_000)).toMatchObject(low);
    for (const keys of [
      { bandwidth: { ingressRate: 3_001, ingressBurst: 1 } },
      { bandwidth: { egressRate: 3_001, egressBurst: 1 } },
      { bandwidth: low, excessBandwidth: { rate: 1_001, burst: 1 } },
    ])
      expect(() => limits(keys, 3_000)).toThrow(/^invalid-claim: its limit of 3001 bits a second is above/);
    expect(() => limits({ excessBandwidth: { rate: 1, burst: 1 } }, 3_000)).toThrow("its limit of 3001");
  });

  it("are all keys of the configuration's list", () => {
    const { apiVersion: _, kind: __, ...keys } = vhostUserPortSchema.shape;
    expect(Object.keys(keys).sort()).toEqual([...CLAIM_KEYS].sort());
  });
});
