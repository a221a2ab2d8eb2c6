import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { claimObject } from "../../test/stand-in/dra/claim-object.ts";
import { planInterfaces } from "../cni-dra/plan-interfaces.ts";
import { CLAIM_KEYS } from "../config/claim-keys.ts";
import { parseClaim } from "../dra/claim.ts";
import { DRA_DRIVER } from "../dra/dra-context.ts";
import { portParameters } from "../dra/port-config.ts";
import { claimTemplateOf } from "./claim-template.ts";

interface Template {
  readonly metadata: object;
  readonly spec: {
    readonly spec: {
      readonly devices: {
        readonly requests: readonly { readonly name: string; readonly exactly: object }[];
        readonly config: readonly {
          readonly requests: readonly string[];
          readonly opaque: { readonly driver: string; readonly parameters: object };
        }[];
      };
    };
  };
}

const templateOf = (network: unknown, ifName = "net1") => {
  const text = typeof network === "string" ? network : JSON.stringify(network);
  const { template, leftOut } = claimTemplateOf(text, "file", ifName);
  return { template: template as Template, leftOut, ...(template as Template).spec.spec.devices };
};

/** The claim of a template, with a device of the driver that its configuration is for. */
function claimOf({ requests, config }: ReturnType<typeof templateOf>, device: string) {
  const [request] = requests;
  const [driver = ""] = config.map(({ opaque }) => opaque.driver);
  const object = claimObject({
    ...{ name: "c", uid: "u", results: [{ request: request?.name ?? "", driver, device }] },
    config: config.map(({ requests, opaque }) => ({ source: "FromClaim", requests, ...opaque })),
  });
  return parseClaim(object, { namespace: "ns", name: "c", uid: "u" }, driver);
}

/** What the driver cni-dra makes of it on a node with the interface eth1. */
function interfaceOf(made: ReturnType<typeof templateOf>, device: string) {
  const [plan] = planInterfaces(claimOf(made, device), {
    allowed: { macvlan: ["mode"], "host-device": [], bridge: ["bridge", "ipam"], tuning: ["mtu"] },
    node: "n1",
    interfaceOf: (name) => ({ cni: null, eth1: "eth1" })[name],
  });
  return plan;
}

const nad = (config: unknown, more: object = {}) => ({
  ...{ apiVersion: "k8s.cni.cncf.io/v1", kind: "NetworkAttachmentDefinition" },
  metadata: { name: "storage", namespace: "tests", ...more },
  spec: { config: typeof config === "string" ? config : JSON.stringify(config) },
});
const withResource = (resource: string) => ({
  annotations: { "k8s.v1.cni.cncf.io/resourceName": resource },
});
const macvlan = { cniVersion: "1.0.0", name: "storage", type: "macvlan", mode: "bridge" };
const ours = { cniVersion: "1.1.0", name: "blue_1", type: "kube-vhostuser", mtu: 9000 };
const interfaceName = 'device.attributes["cni.dra.networking.x-k8s.io"]';

describe("the template of a network of other plugins", () => {
  it("asks for the host interface that the plugin names", () => {
    const made = templateOf(nad({ ...macvlan, master: "eth1", capabilities: { ips: true } }), "data0");
    expect(made.template).toMatchObject({
      ...{ apiVersion: "resource.k8s.io/v1", kind: "ResourceClaimTemplate" },
      metadata: { name: "storage", namespace: "tests" },
    });
    const expression = `"interfaceName" in ${interfaceName} && ${interfaceName}.interfaceName == "eth1"`;
    expect(made.requests[0]?.exactly).toEqual({
      deviceClassName: "cni.networking.x-k8s.io",
      selectors: [{ cel: { expression } }],
    });
    expect(made.leftOut).toEqual(["macvlan"]);
    expect(interfaceOf(made, "eth1")).toMatchObject({
      ...{ request: "net", ifName: "data0" },
      network: { name: "storage", plugins: [{ type: "macvlan", mode: "bridge", master: "eth1" }] },
    });
    const device = templateOf({ cniVersion: "1.0.0", name: "d", type: "host-device", device: "eth1" });
    expect(interfaceOf(device, "eth1")?.network.plugins).toEqual([{ type: "host-device", device: "eth1" }]);
  });

  it("asks for the device without an interface where it names none, also of a list in YAML", () => {
    const list =
      "cniVersion: 1.0.0\nname: tenant\nplugins:\n- { type: bridge, bridge: br9 }\n- { type: tuning, mtu: 1400 }\n";
    const made = templateOf(list);
    const [request] = made.requests;
    const expression = `!("interfaceName" in ${interfaceName})`;
    expect(request?.exactly).toMatchObject({ selectors: [{ cel: { expression } }] });
    expect(interfaceOf(made, "cni")?.network.plugins).toEqual([
      { type: "bridge", bridge: "br9" },
      { type: "tuning", mtu: 1400 },
    ]);
  });

  it("has the name of the NetworkAttachmentDefinition where the configuration has none, as with Multus", () => {
    const made = templateOf(nad({ ...macvlan, master: "eth1", name: undefined }));
    expect(interfaceOf(made, "eth1")?.network.name).toBe("storage");
  });
});

describe("the template of a network of ours", () => {
  it("is for the daemon's driver, and a device of the network's resource", () => {
    const capabilities = { deviceID: true, CNIDeviceInfoFile: true };
    const made = templateOf(nad({ ...ours, capabilities }, withResource("vhostuser/sockets")));
    expect(made.template.metadata).toEqual({ name: "blue-1", namespace: "tests" });
    expect(made.requests[0]?.exactly).toEqual({
      deviceClassName: "vhostuser",
      selectors: [
        {
          cel: {
            expression:
              '"resourceName" in device.attributes["k8s.cni.cncf.io"] && device.attributes["k8s.cni.cncf.io"].resourceName == "vhostuser/sockets"',
          },
        },
      ],
    });
    expect(made.leftOut).toEqual([]);
    const claim = claimOf(made, "one");
    expect(made.config[0]?.opaque.driver).toBe(DRA_DRIVER);
    const [result] = claim.results;
    if (result === undefined) throw new Error("no result");
    const ifName = "net1";
    expect(portParameters(claim, result, ["mtu"])).toEqual({ name: "blue_1", mtu: 9000, ifName });
  });

  it("can be made of the networks in deploy/examples", () => {
    const top = join(import.meta.dirname, "../../deploy/examples/networks");
    const documents = readdirSync(top).flatMap((file) =>
      parseAllDocuments(readFileSync(join(top, file), "utf8")).map((one) => one.toJS()),
    );
    const networks = documents.filter(
      (one) =>
        one?.kind === "NetworkAttachmentDefinition" && /"type": "kube-vhostuser",/.test(one.spec.config),
    );
    expect(networks.length).toBeGreaterThan(10);
    for (const network of networks) {
      const claim = claimOf(templateOf(network), "one");
      for (const result of claim.results)
        expect(portParameters(claim, result, [...CLAIM_KEYS])).toMatchObject({ ifName: "net1" });
    }
  });
});

describe("what cannot be turned into a claim is refused:", () => {
  it.each<readonly [string, unknown, string | RegExp]>([
    ["text that is no YAML", "{ a: [", "it cannot be read"],
    ["two objects", "a: 1\n---\nb: 2\n", "it cannot be read"],
    ["a list", "[]", "it is not an object"],
    ["another kind", { kind: "Pod", type: "x" }, "neither a NetworkAttachmentDefinition nor"],
    ["nothing of CNI", { a: 1 }, "neither a NetworkAttachmentDefinition nor"],
    ["a network in a file of the node", nad(""), /spec\.config is empty.*pass that file/],
    [
      "a plugin that takes the default route's interface",
      macvlan,
      "the plugin macvlan has no host interface",
    ],
    [
      "a plugin that is not an object",
      { cniVersion: "1.0.0", name: "a", plugins: [null] },
      "not a CNI configuration",
    ],
    ["a configuration of no known version", { ...macvlan, cniVersion: undefined }, "cniVersion"],
    ["what a runtime fills in", { ...macvlan, runtimeConfig: {} }, "has the key runtimeConfig"],
    [
      "a plugin with devices of a device plugin",
      nad({ ...macvlan, type: "sriov" }, withResource("intel.com/vf")),
      "needs a device of the device plugin's resource intel.com/vf",
    ],
    [
      "two interfaces of the host",
      {
        ...{ cniVersion: "1.0.0", name: "n" },
        plugins: [
          { type: "macvlan", master: "eth1" },
          { type: "x", master: "eth2" },
        ],
      },
      'config has the master "eth2"',
    ],
    [
      "our plugin with others",
      { cniVersion: "1.0.0", name: "n", plugins: [{ type: "kube-vhostuser" }, { type: "tuning" }] },
      "config has the plugins kube-vhostuser, tuning",
    ],
    ["a key of ours that only Multus sets", { ...ours, deviceID: "sockets-1" }, "deviceID: there is no such"],
    ["a mistyped key of ours", { ...ours, mtuu: 1 }, "write mtu"],
    ["a name that no object can have", { ...macvlan, master: "eth1", name: "a..-" }, "no object can have"],
  ])("%s", (_, network, message) => {
    expect(() => templateOf(network)).toThrow(message);
  });

  it("an interface's name that every pod has", () => {
    expect(() => templateOf(macvlan, "eth0")).toThrow('ifName "eth0" cannot be used');
  });
});
