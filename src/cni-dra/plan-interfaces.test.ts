import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type ConfigWish, claimObject } from "../../test/stand-in/dra/claim-object.ts";
import { parseClaim } from "../dra/claim.ts";
import { parseCniNetwork } from "../dra/cni-config.ts";
import { Failure } from "../failure/failure.ts";
import { CNI_DRIVER, planInterfaces } from "./plan-interfaces.ts";

const macvlan = { cniVersion: "1.0.0", name: "storage", type: "macvlan", mode: "bridge" };
const allowed = {
  ...{ macvlan: ["mode", "mtu"], "host-local": ["ranges"], tuning: ["mtu"], "host-device": [] },
};
const options = {
  allowed,
  node: "n1",
  interfaceOf: (device: string) => ({ cni: null, eth1: "eth1" })[device],
};

/** What is planned for a claim with these configurations, by default of one request. */
function plan(config: readonly (Partial<ConfigWish> & { readonly parameters: object })[], more = {}) {
  const wish = { name: "c", results: [{ request: "net", driver: CNI_DRIVER, device: "eth1" }], ...more };
  const full = config.map((one) => ({ source: "FromClaim" as const, driver: CNI_DRIVER, ...one }));
  const object = claimObject({ ...wish, config: full });
  const reference = { namespace: "ns", name: "c", uid: object.metadata.uid };
  return planInterfaces(parseClaim(object, reference, CNI_DRIVER), options);
}
const parameters = (config: unknown, keys = {}) => ({
  ...{ apiVersion: "cni.networking.x-k8s.io/v1alpha1", kind: "CNIConfig", ifName: "net1", config },
  ...keys,
});
const two = {
  results: [
    { request: "a", driver: CNI_DRIVER, device: "eth1" },
    { request: "b", driver: CNI_DRIVER, device: "cni" },
  ],
};

describe("the interface of a request", () => {
  it("is planned with its host interface as master, in a network of the name that it is given", () => {
    expect(plan([{ parameters: parameters(macvlan) }])).toEqual([
      expect.objectContaining({
        ...{ request: "net", pool: "n1", device: "eth1", ifName: "net1" },
        network: {
          ...{ cniVersion: "1.0.0", name: "storage" },
          plugins: [{ type: "macvlan", mode: "bridge", master: "eth1" }],
        },
      }),
    ]);
  });

  it("may come as text, and as a list", () => {
    const { cniVersion, name, ...plugin } = macvlan;
    const list = { cniVersion, name, plugins: [plugin, { type: "tuning", mtu: 9000 }] };
    const [planned] = plan([{ parameters: parameters(JSON.stringify(list)) }]);
    expect(planned?.network.plugins).toEqual([
      { type: "macvlan", mode: "bridge", master: "eth1" },
      { type: "tuning", mtu: 9000 },
    ]);
  });

  it("is on the allocated interface also where a later plugin has none: it would take that of the default route", () => {
    const list = { cniVersion: "1.0.0", name: "n", plugins: [{ type: "tuning" }, { type: "macvlan" }] };
    expect(plan([{ parameters: parameters(list) }])[0]?.network.plugins).toEqual([
      { type: "tuning", master: "eth1" },
      { type: "macvlan", master: "eth1" },
    ]);
  });

  it("is the device of host-device", () => {
    const config = { cniVersion: "1.0.0", name: "n", type: "host-device" };
    const planned = (device: object, source: "FromClaim" | "FromClass" = "FromClaim") =>
      plan([{ source, parameters: parameters({ ...config, ...device }) }])[0]?.network.plugins;
    const told = [{ type: "host-device", device: "eth1" }];
    expect([planned({}), planned({ device: "eth1" })]).toEqual([told, told]);
    for (const source of ["FromClaim", "FromClass"] as const)
      expect(() => planned({ device: "eth0" }, source)).toThrow('has the device "eth0"');
  });

  it("is the class's where that has the configuration, with any plugin and key", () => {
    const config = { ...macvlan, type: "bridge", master: "eth9", ipam: { type: "dhcp" } };
    const results = [{ request: "net", driver: CNI_DRIVER, device: "cni" }];
    const [planned] = plan([{ source: "FromClass", parameters: parameters(config) }], { results });
    expect(planned?.network).toMatchObject({
      name: "storage",
      plugins: [{ type: "bridge", master: "eth9" }],
    });
  });

  it.each([
    ["no configuration", [], {}, "the request has no configuration"],
    ["two", [macvlan, macvlan], {}, "has 2 configurations, from the claim"],
    [
      "two devices",
      [macvlan],
      { results: [{}, {}].map(() => ({ request: "net", driver: CNI_DRIVER, device: "eth1" })) },
      /one configuration is for|more than one device/,
    ],
    ["one configuration for two requests", [macvlan], two, "is for the requests a and b"],
    [
      "a device that is gone",
      [macvlan],
      { results: [{ driver: CNI_DRIVER, device: "eth7" }] },
      'has no device "eth7"',
    ],
    [
      "another node's",
      [macvlan],
      { results: [{ driver: CNI_DRIVER, device: "eth1", pool: "n2" }] },
      'of pool "n2"',
    ],
    ["another master", [{ ...macvlan, master: "eth0" }], {}, 'has the master "eth0"'],
    [
      "a master for the device without one",
      [{ ...macvlan, master: "eth0" }],
      { results: [{ driver: CNI_DRIVER, device: "cni" }] },
      "one without",
    ],
    [
      "a plugin that would take the interface of the default route",
      [macvlan],
      { results: [{ driver: CNI_DRIVER, device: "cni" }] },
      "the plugin macvlan has no host interface",
    ],
    [
      "two pods",
      [macvlan],
      {
        pods: [
          { name: "a", uid: "a" },
          { name: "b", uid: "b" },
        ],
      },
      "reserved for 2 pods",
    ],
  ])("is refused with %s", (_, configs, more, message) => {
    expect(() =>
      plan(
        configs.map((config) => ({ parameters: parameters(config) })),
        more,
      ),
    ).toThrow(message);
  });

  it("is refused with our plugin, which the daemon's driver serves", () => {
    const config = [
      { source: "FromClass" as const, parameters: parameters({ ...macvlan, type: "kube-vhostuser" }) },
    ];
    expect(() => plan(config)).toThrow("take a DeviceClass of the driver vhostuser.kube-vhostuser.io");
  });

  it("is refused where class and claim both configure it: they are not merged", () => {
    const both = (["FromClass", "FromClaim"] as const).map((source) => ({
      source,
      parameters: parameters(macvlan),
    }));
    expect(() => plan(both)).toThrow("2 configurations, from its DeviceClass and the claim");
  });

  it.each(["", "lo", "eth0", "a/b", "a b", "sixteen-bytes-xx", ".."])("cannot have the name %j", (ifName) => {
    expect(() => plan([{ parameters: parameters(macvlan, { ifName }) }])).toThrow("cannot be used");
  });

  it("has a name of its own in the claim", () => {
    const tuning = { cniVersion: "1.0.0", name: "n", type: "tuning" };
    const configs = ["a", "b"].map((request) => ({ requests: [request], parameters: parameters(tuning) }));
    expect(() => plan(configs, two)).toThrow("another request of the claim has ifName net1");
  });
});

describe("a hostile configuration", () => {
  it.each<readonly [string, unknown, string]>([
    ["a path", { ...macvlan, type: "../../bin/sh" }, "must be the file name of an executable"],
    ["an absolute path", { ...macvlan, type: "/bin/sh" }, "must be the file name of an executable"],
    ["a path as IPAM plugin", { ...macvlan, ipam: { type: "../sh" } }, "must be the file name"],
    ["a plugin that is not listed", { ...macvlan, type: "ipvlan" }, "may not use the plugin ipvlan"],
    ["a name of every object", { ...macvlan, type: "constructor" }, "may not use the plugin constructor"],
    [
      "an IPAM plugin that is not listed",
      { ...macvlan, ipam: { type: "dhcp" } },
      "may not use the plugin dhcp",
    ],
    ["a key that is not listed", { ...macvlan, linkInContainer: true }, "may not set linkInContainer"],
    ["a key of IPAM", { ...macvlan, ipam: { type: "host-local", dataDir: "/etc" } }, "may not set dataDir"],
    ["IPAM without a type", { ...macvlan, ipam: { dataDir: "/etc" } }, "ipam has keys and no type"],
    [
      "a second plugin",
      { cniVersion: "1.0.0", name: "n", plugins: [{ type: "macvlan" }, { type: "sh" }] },
      "may not use the plugin sh",
    ],
    ["runtimeConfig", { ...macvlan, runtimeConfig: { mac: "x" } }, "which only its caller sets"],
    ["prevResult", { ...macvlan, prevResult: {} }, "which only its caller sets"],
    ["a reserved key", { ...macvlan, "cni.dev/attachments": [] }, "which only its caller sets"],
    ["args", { ...macvlan, args: {} }, "may not set args"],
    ["a name with a slash", { ...macvlan, name: "../x" }, "must begin with a letter or digit"],
    ["another version", { ...macvlan, cniVersion: "9.0.0" }, "cniVersion"],
    ["no plugin", { cniVersion: "1.0.0", name: "n", plugins: [] }, "not a CNI configuration"],
    [
      "a directory of plugins",
      { cniVersion: "1.0.0", name: "n", loadOnlyInlinedPlugins: false, plugins: [{ type: "macvlan" }] },
      "loadOnlyInlinedPlugins",
    ],
    ["broken JSON", "{", "is a text that is not JSON"],
    ["no object", "[]", "not a CNI configuration"],
  ])("with %s is refused", (_, config, message) => {
    const refused = () => plan([{ parameters: parameters(config) }]);
    expect(refused).toThrow(message);
    expect(refused).toThrow("claim ns/c, request net");
  });

  it("nested deeper than any is refused", () => {
    const deep = `{"cniVersion":"1.0.0","name":"n","type":"macvlan","a":${"[".repeat(5000)}${"]".repeat(5000)}}`;
    expect(() => plan([{ parameters: parameters(deep) }])).toThrow("nested more than");
  });

  it("of any shape is read or refused", () => {
    const refuse = (what: string, fix: string) => new Failure({ code: "invalid-claim", what, fix });
    fc.assert(
      fc.property(
        fc.oneof(fc.json(), fc.object({ key: fc.constantFrom("type", "name", "plugins", "ipam", "x") })),
        (config) => {
          try {
            parseCniNetwork(config, refuse);
          } catch (error) {
            expect(error).toMatchObject({ code: "invalid-claim" });
          }
        },
      ),
    );
  });
});
