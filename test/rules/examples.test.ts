import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse, parseAllDocuments, stringify } from "yaml";
import { parseAddressPool } from "../../src/address-objects/address-pool.ts";
import { parseNetworkConfig } from "../../src/cni/network-config.ts";
import { portKeys } from "../../src/cni/network-keys.ts";
import { portSettingsOf } from "../../src/cni/port-settings-of.ts";
import { CLAIM_DEFAULT_KEYS } from "../../src/config/claim-keys.ts";
import { parseConfig } from "../../src/config/load.ts";
import { checkRequest as checkOvsRequest } from "../../src/dataplane/ovs/settings/check-request.ts";
import type { PortRequest } from "../../src/dataplane/port.ts";
import { checkRequest as checkVppRequest } from "../../src/dataplane/vpp/check-request.ts";
import { vhostUserPortSchema } from "../../src/dra/port-config.ts";
import { withAddresses } from "../../src/ipam/request-addresses.ts";
import { parseNetworkConfig as parseIpamConfig } from "../../src/ipam-agent/network-config.ts";
import { parseVmi } from "../../src/sidecar/vmi.ts";
import { exampleVmi } from "../cluster/example-vm.ts";
import { DEPLOY, type Manifest, manifestFiles, readManifests, theOnly } from "../manifests/manifest.ts";
import type { VmiInterface } from "../stand-in/virt-launcher/vmi.ts";

const EXAMPLES = join(DEPLOY, "examples");
const RESOURCE = "k8s.v1.cni.cncf.io/resourceName";
const all = manifestFiles(EXAMPLES).flatMap(readManifests);
const networks = all.filter(({ kind }) => kind === "NetworkAttachmentDefinition");
const { config: poolsConfig } = parse(readFileSync(join(EXAMPLES, "pools/values.yaml"), "utf8"));
const { pools } = parseConfig(stringify(poolsConfig), "deploy/examples/pools/values.yaml", "node-1");
const configOf = (network: Manifest): Readonly<Record<string, unknown>> => JSON.parse(network["spec"].config);
const poolOf = ({ metadata }: Manifest) =>
  pools.find(({ resource }) => resource === metadata.annotations?.[RESOURCE]);
const written = new Set(networks.flatMap((network) => Object.keys(configOf(network))));

/** The addresses that an IPAM plugin would give on this network; two families where it names two. */
function addressesOf(network: Manifest): { address: string; gateway: string }[] {
  const { ipam } = configOf(network) as { ipam?: { type: string; ranges?: { gateway: string }[][] } };
  if (ipam === undefined) return [];
  return (ipam.ranges ?? []).map(([range], index) => ({
    address: index === 0 ? "10.30.0.5/24" : "fd30::5/64",
    gateway: range?.gateway ?? "10.30.0.1",
  }));
}

/** What ADD would ask the switch for. */
function requestOf(network: Manifest): PortRequest {
  const config = parseNetworkConfig(Buffer.from(network["spec"].config));
  const { mtu } = config;
  return {
    name: "vh0123456789abc",
    bridge: config.bridge ?? poolOf(network)?.dataplane.bridge ?? "",
    socketPath: "/var/run/vhostuser/abcdefghijklmnop/net1/vhost.sock",
    ...(mtu === undefined ? {} : { mtu }),
    settings: withAddresses(portSettingsOf(config), {
      ...{ ips: addressesOf(network), routes: [], dns: { nameservers: [], search: [], options: [] } },
    }),
    owner: {
      node: "node-1",
      podNamespace: "tests",
      podName: "pod",
      podUid: "",
      containerId: "c",
      interfaceName: "net1",
      network: config.name,
      mac: "02:00:00:00:00:01",
      allocationId: "abcdefghijklmnop",
    },
  };
}

describe("the networks in deploy/examples", () => {
  it.each(networks.map((network) => [network.metadata.name, network] as const))(
    "%s is one that the CNI plugin and its pool's switch take",
    (name, network) => {
      const pool = poolOf(network);
      expect(pool, `pool of ${network.metadata.annotations?.[RESOURCE]}`).toBeDefined();
      const config = configOf(network);
      expect(config).toMatchObject({ name, type: "kube-vhostuser" });
      expect(parseNetworkConfig(Buffer.from(network["spec"].config)).ignoredKeys).toEqual([]);
      expect(config["capabilities"]).toMatchObject({ deviceID: true, CNIDeviceInfoFile: true });
      const check = pool?.dataplane.type === "vpp" ? checkVppRequest : checkOvsRequest;
      check(requestOf(network), "node-1");
    },
  );

  it("are rejected with a setting that the pool's switch does not support", () => {
    const [network] = networks.filter(({ metadata }) => metadata.name === "vpp-bridged");
    if (network === undefined) throw new Error("vpp-bridged is gone");
    const changed = JSON.stringify({ ...configOf(network), txRetriesMax: 3 });
    const request = requestOf({ ...network, spec: { config: changed } });
    expect(() => checkVppRequest(request, "node-1")).toThrow(/txRetriesMax: 3: VPP does not support it/);
  });

  it("show every key that a network can ask its port for", () => {
    const keys = ["bridge", "mtu", "mac", "ipam", "dns", ...Object.keys(portKeys)];
    expect(keys.filter((key) => !written.has(key))).toEqual([]);
  });

  it("name address pools that are there, and that the agent takes", () => {
    const addressPools = all
      .filter(({ kind }) => kind === "AddressPool")
      .map((one) => ({ ...one, metadata: { ...one.metadata, uid: "u", resourceVersion: "1" } }));
    const known = new Map(addressPools.map((one) => [one.metadata.name, parseAddressPool(one)]));
    const asked = networks.flatMap((network) => {
      const { ipam } = configOf(network) as { ipam?: { type: string; pools: string[] } };
      if (ipam?.type !== "kube-vhostuser-ipam") return [];
      return parseIpamConfig(Buffer.from(network["spec"].config)).ipam.pools ?? [];
    });
    expect(asked.length).toBeGreaterThan(0);
    expect(new Set(asked)).toEqual(new Set(known.keys()));
    for (const { usable } of known.values()) expect(usable.size).toBeGreaterThan(0n);
  });

  it("show four IPAM plugins, and have distinct names", () => {
    const types = networks.map(
      (network) => parseNetworkConfig(Buffer.from(network["spec"].config)).ipam?.type,
    );
    expect(new Set(types.filter((type) => type !== undefined))).toEqual(
      new Set(["host-local", "kube-vhostuser-ipam", "static", "whereabouts"]),
    );
    const names = networks.map(({ metadata }) => metadata.name);
    expect(new Set(names).size).toBe(names.length);
  });
});

describe("the pods in deploy/examples", () => {
  const pods = all.filter(({ kind }) => kind === "Pod");
  const networkOf = (name: string) => networks.find(({ metadata }) => metadata.name === name);
  const attached = ({ metadata }: Manifest): Manifest[] =>
    JSON.parse(metadata.annotations?.["k8s.v1.cni.cncf.io/networks"] ?? "[]").map(
      ({ name }: { name: string }) => networkOf(name),
    );

  it.each(pods.map((pod) => [pod.metadata.name, pod] as const))(
    "%s asks for a device of each of its networks' pools",
    (_, pod) => {
      const count = new Map<string, number>();
      for (const network of attached(pod)) {
        const { resource = "none" } = poolOf(network) ?? {};
        count.set(resource, (count.get(resource) ?? 0) + 1);
      }
      for (const { resources } of pod["spec"].containers) {
        for (const asked of [resources.requests, resources.limits]) {
          const ours = Object.entries(asked).filter(([name]) => name.includes("/"));
          expect(new Map(ours.map(([name, amount]) => [name, Number(amount)]))).toEqual(count);
        }
      }
    },
  );

  it("name the variable that the pool's Allocate sets, and the interfaces of their annotation", () => {
    for (const pod of pods.filter((one) => attached(one).length > 0)) {
      const [{ command }] = pod["spec"].containers;
      const used = [...command.at(-1).matchAll(/path=\$(\w+)\/(\w+)\/vhost\.sock/g)];
      const annotation = JSON.parse(pod.metadata.annotations?.["k8s.v1.cni.cncf.io/networks"] ?? "");
      expect(used.map(([, , name]) => name)).toEqual(
        annotation.map((one: { interface: string }) => one.interface),
      );
      const names = attached(pod).map(
        (network) => `VHOSTUSER_${poolOf(network)?.name.toUpperCase()}_DIRECTORY`,
      );
      expect(used.map(([, variable]) => variable)).toEqual(names);
    }
  });
});

describe("the VMs in deploy/examples", () => {
  const vms = ["vm.yaml", "vm-peer.yaml", "vm-router.yaml", "claim-vm.yaml"];
  const { binding } = theOnly(readManifests(join(DEPLOY, "kubevirt/kubevirt-cr.yaml")), "KubeVirt")["spec"]
    .configuration.network;

  it.each(vms)("%s is one that the sidecar takes, on networks and claims that are there", async (file) => {
    const vmi = await exampleVmi(file);
    const ours = vmi.spec.networks?.flatMap(({ multus }) => multus?.networkName ?? []) ?? [];
    for (const name of ours) expect(networks.map(({ metadata }) => metadata.name)).toContain(name);
    // KubeVirt has written the name of a domain's interface when the sidecar is asked.
    const [name = ""] = Object.keys(binding);
    const { interfaces } = parseVmi(JSON.stringify(vmi), name);
    // KubeVirt adds one for each network to what is there.
    expect(JSON.stringify(vmi.spec.domain)).not.toContain("vhostuser/");
    const claimed = vmi.spec.networks?.filter(({ resourceClaim }) => resourceClaim !== undefined) ?? [];
    expect(interfaces).toHaveLength(ours.length + claimed.length);
    expect(binding[name]).toMatchObject({ downwardAPI: "device-info", migration: {} });
    expect(binding[name].migration).toEqual({});
  });

  it("claim-vm.yaml names a claim of its template, whose port has the MAC of the VM's interface", async () => {
    const { domain, networks: used, resourceClaims } = specOf("claim-vm.yaml");
    const template = theOnly(readManifests(join(EXAMPLES, "claim-vm.yaml")), "ResourceClaimTemplate");
    const { requests, config } = template["spec"].spec.devices;
    expect(resourceClaims).toEqual([
      { name: used[1].resourceClaim.claimName, resourceClaimTemplateName: template.metadata.name },
    ]);
    expect(requests.map(({ name }: { name: string }) => name)).toEqual([used[1].resourceClaim.requestName]);
    expect(used[1].name).toBe(domain.devices.interfaces[1].name);
    expect(config[0].opaque.parameters.mac).toBe(domain.devices.interfaces[1].macAddress);
    const classes = readFileSync(join(DEPLOY, "chart/kube-vhostuser/templates/dra.yaml"), "utf8");
    expect(classes).toMatch(
      new RegExp(`kind: DeviceClass\\nmetadata:\\n  name: ${requests[0].exactly.deviceClassName}\\n`),
    );
  });

  it.each(vms)("%s has a login and addresses on the interfaces that it has, by their MACs", (file) => {
    const { domain, volumes } = specOf(file);
    const { userData, networkData } = volumes.find(
      ({ name }: { name: string }) => name === "cloudinit",
    ).cloudInitNoCloud;
    expect(userData).toMatch(/^#cloud-config\n/);
    expect(parse(userData)).toMatchObject({ password: "fedora", chpasswd: { expire: false } });
    const { ethernets } = parse(networkData) as {
      ethernets: Record<string, { match: { macaddress: string } }>;
    };
    expect(Object.entries(ethernets).map(([name, { match }]) => [name, match.macaddress])).toEqual(
      domain.devices.interfaces.map(({ name, macAddress }: VmiInterface) => [name, macAddress]),
    );
    const disks = domain.devices.disks.map(({ name }: { name: string }) => name);
    expect(disks).toEqual(volumes.map(({ name }: { name: string }) => name));
  });

  it("are two alike, with an address each on one network, and no MAC twice", () => {
    const peer = readFileSync(join(EXAMPLES, "vm-peer.yaml"), "utf8")
      .replaceAll("vhostuser-peer", "vhostuser-vm")
      .replaceAll(/02:00:00:00:(0[01]):02/g, "02:00:00:00:$1:01")
      .replaceAll("10.10.0.2/24", "10.10.0.1/24");
    expect(parse(peer)).toEqual(parse(readFileSync(join(EXAMPLES, "vm.yaml"), "utf8")));
    const macs = vms
      .flatMap((file) => specOf(file).domain.devices.interfaces)
      .map(({ macAddress }) => macAddress);
    expect(new Set(macs).size).toBe(macs.length);
  });

  it.each(["README.md", "docs/vm-owners-guide.md", "docs/coming-from.md"])(
    "%s shows the interface and the network of vm.yaml",
    (page) => {
      const { domain, networks: used } = specOf("vm.yaml");
      const blocks = [...readFileSync(join(DEPLOY, "..", page), "utf8").matchAll(/^```yaml\n(.*?)^```/gms)];
      const shown = blocks
        .map(([, yaml = ""]) => parseAllDocuments(yaml)[0]?.toJS())
        .map((one) => ({ ...one, ...one.spec?.template?.spec, ...one.spec?.template?.spec.domain.devices }));
      const ofBinding = shown
        .flatMap(({ interfaces = [] }) => interfaces)
        .filter(({ binding }) => binding?.name === "vhostuser");
      expect(ofBinding).toEqual([domain.devices.interfaces[1]]);
      for (const one of shown.flatMap((block) => block.networks ?? [])) expect(used).toContainEqual(one);
    },
  );

  function specOf(file: string) {
    return theOnly(readManifests(join(EXAMPLES, file)), "VirtualMachine")["spec"].template.spec;
  }
});

it("classes and claims have parameters that the driver accepts, and claims only keys that are theirs by default", () => {
  const parametersIn = ({ spec }: Manifest) =>
    (spec.config ?? spec.spec.devices.config).map(
      ({ opaque }: { opaque: { parameters: unknown } }) => opaque.parameters,
    );
  const ofKind = (kind: string) => all.filter((one) => one.kind === kind).flatMap(parametersIn);
  const [classes, claims] = ["DeviceClass", "ResourceClaimTemplate"].map(ofKind);
  expect([classes?.length, claims?.length]).toEqual([1, 2]);
  for (const one of [...(classes ?? []), ...(claims ?? [])])
    expect(vhostUserPortSchema.safeParse(one).error).toBeUndefined();
  for (const { apiVersion: _, kind: __, ...keys } of claims ?? [])
    expect(CLAIM_DEFAULT_KEYS).toEqual(expect.arrayContaining(Object.keys(keys)));
});

it("the images of the examples are those that are built", () => {
  const built = readFileSync(join(DEPLOY, "../scripts/image.ts"), "utf8");
  const used = manifestFiles(EXAMPLES)
    .concat(
      join(DEPLOY, "overlays/ovs-in-pod/switch/kustomization.yaml"),
      join(DEPLOY, "quick-start/pods.yaml"),
    )
    .flatMap((file) => [
      ...readFileSync(file, "utf8").matchAll(/localhost\/example-([a-z-]+)(?::|\n\s+newTag: ")([\d.]+)/g),
    ]);
  expect(new Set(used.map(([, name]) => name))).toEqual(new Set(["testpmd", "ovs-dpdk"]));
  for (const [, name, tag] of used) expect(built).toMatch(new RegExp(`\\b${name}"?: "${tag}"`));
});
