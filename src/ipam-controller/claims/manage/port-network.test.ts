import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ApiRig } from "../../../../test/stand-in/api-server/api-rig.ts";
import type { Json } from "../../../../test/stand-in/api-server/object-store.ts";
import { cniConfig, DRIVER, portParameters } from "../../../../test/stand-in/dra/claim-object.ts";
import { ClaimCluster } from "../../../../test/stand-in/ipam/claim-cluster.ts";
import { ControllerRig } from "../../../../test/stand-in/ipam/controller-rig.ts";
import { vmiRequestHash } from "../../../claims/resources.ts";
import type { IpamController } from "../../controller.ts";

const VM = "tenant/virtualmachines";
const VMI = "tenant/virtualmachineinstances";

let all: ControllerRig;
let rig: ApiRig;
let claims: ClaimCluster;
let controller: IpamController;

beforeEach(async () => {
  all = await ControllerRig.open();
  ({ rig } = all);
  claims = new ClaimCluster(rig.server);
  all.cluster.pool("blue", ["10.0.0.0/24"], { cooldownSeconds: 0 });
  all.cluster.blockOf("10.0.0.0/28", { kind: "Shared" });
  controller = await all.start(rig.client, { hasClaims: true, managesClaims: true, random: () => 0 });
});
afterEach(() => all.close());

const store = () => rig.server.store;
const until = (isSo: () => boolean) => rig.until(isSo, 10);
const looks = () => all.looks(controller, 30, 30);
const claim = (name = "vm1.red") => store().find("tenant/ipamclaims", name);
const ips = (name = "vm1.red") => claims.status(name).ips;

const ipam = { type: "kube-vhostuser-ipam", pools: ["blue"] };
const persistent = { name: "blue-network", ipam, allowPersistentIPs: true };
const entry = (parameters: object, requests?: readonly string[]) => ({
  ...(requests && { requests }),
  opaque: { driver: DRIVER, parameters },
});
const classOf = (...config: readonly object[]) =>
  store().create("deviceclasses", { metadata: { name: "fast" }, spec: { config } });
const devices = (...config: readonly object[]) => ({
  devices: { requests: [{ name: "net", exactly: { deviceClassName: "fast" } }], config },
});
const template = (...config: readonly object[]) =>
  store().create("tenant/resourceclaimtemplates", {
    metadata: { name: "port", namespace: "tenant" },
    spec: { spec: devices(...config) },
  });

/** A VM with its instance, whose network red is the request net of a ResourceClaim. */
function vm(
  name = "vm1",
  resourceClaim: Json = { name: "c", resourceClaimTemplateName: "port" },
  more: Json = {},
) {
  const spec = {
    resourceClaims: [resourceClaim],
    networks: [{ name: "red", resourceClaim: { claimName: resourceClaim["name"], requestName: "net" } }],
    domain: { devices: { interfaces: [{ name: "red", binding: { name: "vhostuser" } }] } },
  };
  const known = store().find(VM, name) ?? claims.vm(name, {});
  store().merge(VM, name, { spec: { template: { spec } } });
  const instance = { metadata: { name, namespace: "tenant", ownerReferences: [] as Json[] }, ...more };
  instance.metadata.ownerReferences.push({ kind: "VirtualMachine", name, uid: known.metadata.uid });
  store().create(VMI, {
    ...instance,
    spec,
    status: { phase: "Scheduling", activePods: {}, ...(more["status"] as Json) },
  });
}

describe("the claim of a VM's network that is a ResourceClaim", () => {
  it.each<readonly [string, () => unknown]>([
    ["the DeviceClass", () => [classOf(entry(portParameters(persistent))), template()]],
    [
      "the template for the request",
      () => [
        classOf(),
        template(entry(portParameters({ mtu: 9000 }), ["other"]), entry(portParameters(persistent), ["net"])),
      ],
    ],
    [
      "both, key by key",
      () => [
        classOf(entry(portParameters({ ipam, name: "blue-network" }))),
        template(entry(portParameters({ allowPersistentIPs: true }))),
      ],
    ],
    [
      "a CNI configuration as text",
      () => [
        classOf(),
        template(
          entry(
            cniConfig(
              JSON.stringify({
                ...{ cniVersion: "1.1.0", name: "blue-network" },
                plugins: [{ type: "kube-vhostuser", ipam, allowPersistentIPs: true }],
              }),
            ),
          ),
        ),
      ],
    ],
  ])("is made where %s says so, and gets an address of the pools there", async (_, make) => {
    make();
    vm();
    await until(() => ips().length > 0);
    expect(claim()).toMatchObject({
      metadata: {
        labels: {
          "kubevirt.io/vm": "vm1",
          "ipam.kube-vhostuser.io/vmi-request": vmiRequestHash("vm1", { claim: "c", request: "net" }),
        },
        annotations: { "ipam.kube-vhostuser.io/pools": "blue" },
        ownerReferences: [{ kind: "VirtualMachine", name: "vm1" }],
      },
      spec: { network: "blue-network" },
    });
    expect(ips()).toEqual(["10.0.0.1/24"]);
  });

  it("is that of a ResourceClaim that the VM names by its own name", async () => {
    classOf(entry(portParameters(persistent)));
    store().create("tenant/resourceclaims", {
      metadata: { name: "mine", namespace: "tenant" },
      spec: devices(),
    });
    vm("vm1", { name: "c", resourceClaimName: "mine" });
    await until(() => claim() !== undefined);
    const hash = vmiRequestHash("vm1", { claim: "mine", request: "net" });
    expect(claim()?.metadata["labels"]).toMatchObject({ "ipam.kube-vhostuser.io/vmi-request": hash });
  });

  it("is not made for other requests, nor for a VM that has started", async () => {
    classOf(entry(portParameters({ ...persistent, allowPersistentIPs: false })));
    template();
    vm();
    store().create("tenant/resourceclaimtemplates", {
      metadata: { name: "keeps", namespace: "tenant" },
      spec: { spec: devices(entry(portParameters(persistent))) },
    });
    vm("vm2", { name: "c", resourceClaimTemplateName: "keeps" }, { status: { phase: "Running" } });
    vm("vm3", { name: "c", resourceClaimTemplateName: "keeps" });
    await until(() => claim("vm3.red") !== undefined);
    await looks();
    expect(claims.all.map((one) => one.split(" ")[0])).toEqual(["vm3.red"]);
  });

  it("is made when a template and a class come that were not there", async () => {
    vm();
    await looks();
    classOf(entry(portParameters(persistent)));
    template();
    // The pauses between its attempts have grown.
    await rig.until(() => claim() !== undefined, 1_000);
  });

  it("stays with its address when the VM is restarted with another ResourceClaim of the network", async () => {
    classOf(entry(portParameters(persistent)));
    template();
    vm();
    await until(() => ips().length > 0);
    const before = ips();
    all.cluster.remove(VMI, "vm1");
    vm("vm1", { name: "d", resourceClaimTemplateName: "port" });
    const hash = vmiRequestHash("vm1", { claim: "d", request: "net" });
    const label = () =>
      (claim()?.metadata["labels"] as Json | undefined)?.["ipam.kube-vhostuser.io/vmi-request"];
    await until(() => label() === hash);
    await looks();
    expect([ips(), claims.all.length]).toEqual([before, 1]);
  });

  it("of another network's name is refused in words, until the claim is deleted while the VM is stopped", async () => {
    classOf(entry(portParameters(persistent)));
    template();
    vm();
    await until(() => ips().length > 0);
    all.cluster.remove(VMI, "vm1");
    store().merge("deviceclasses", "fast", {
      spec: { config: [entry(portParameters({ ...persistent, name: "other" }))] },
    });
    vm();
    const remedy = "IPAMClaim vm1.red has addresses of blue-network: stop the VM and delete the claim";
    await until(() => all.posted.some(({ note }) => note.includes(remedy)));
    all.cluster.remove(VMI, "vm1");
    all.cluster.remove("tenant/ipamclaims", "vm1.red");
    await until(() => claim() === undefined);
    vm();
    await until(() => (claim()?.["spec"] as Json | undefined)?.["network"] === "other");
  });
});

describe("the address of such a claim that is gone", () => {
  const pod = (name: string, resourceClaim?: string) =>
    store().create("tenant/pods", {
      metadata: {
        ...{ name, namespace: "tenant", labels: { "kubevirt.io": "virt-launcher" } },
        annotations: { "kubevirt.io/domain": "vm1" },
      },
      spec: { resourceClaims: [{ name: "c", resourceClaimTemplateName: "port" }] },
      status: resourceClaim
        ? { resourceClaimStatuses: [{ name: "c", resourceClaimName: resourceClaim }] }
        : {},
    });
  const device = { driver: DRIVER, pool: "n1", device: "one", shareID: "s" };
  const resourceClaim = (name: string, networkData?: Json) =>
    store().create("tenant/resourceclaims", {
      metadata: { name, namespace: "tenant" },
      spec: devices(),
      status: {
        allocation: { devices: { results: [{ request: "net", ...device }] } },
        devices: networkData === undefined ? [] : [{ ...device, networkData }],
      },
    });
  beforeEach(async () => {
    classOf(entry(portParameters(persistent)));
    template();
    vm();
    await until(() => ips().length > 0);
    for (const plural of [VMI, VM]) all.cluster.remove(plural, "vm1");
    claims.collectGarbage();
    await until(() => claims.all.length === 0);
  });
  const isFreed = async () => {
    await all.looks(controller, 60, 60, 60);
    return Object.keys(claims.owners).length === 0;
  };

  it("is freed without pods", async () => {
    expect(await isFreed()).toBe(true);
  });

  it("stays while a pod's ResourceClaim has it, or does not say yet what it has", async () => {
    pod("p1", "p1-c");
    expect(await isFreed()).toBe(false);
    resourceClaim("p1-c");
    expect(await isFreed()).toBe(false);
    all.cluster.remove("tenant/resourceclaims", "p1-c");
    resourceClaim("p1-c", { ips: ["10.0.0.1/24"] });
    expect(await isFreed()).toBe(false);
    all.cluster.remove("tenant/pods", "p1");
    expect(await isFreed()).toBe(true);
  });

  it("is freed while a pod of a later VM of the name waits for devices", async () => {
    pod("p1", "p1-c");
    store().create("tenant/resourceclaims", {
      metadata: { name: "p1-c", namespace: "tenant" },
      spec: devices(),
    });
    expect(await isFreed()).toBe(true);
  });

  it("is freed while a pod of a later VM of the name runs, which has another one", async () => {
    pod("p1", "p1-c");
    resourceClaim("p1-c", { ips: ["10.0.0.2/24"] });
    expect(await isFreed()).toBe(true);
  });
});
