import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ApiRig } from "../../../../test/stand-in/api-server/api-rig.ts";
import type { Stored } from "../../../../test/stand-in/api-server/object-store.ts";
import { ClaimCluster } from "../../../../test/stand-in/ipam/claim-cluster.ts";
import { ControllerRig } from "../../../../test/stand-in/ipam/controller-rig.ts";
import { vmiInterfaceHash } from "../../../claims/resources.ts";
import { hashedPodInterfaceName } from "../../../names/interface-name.ts";
import type { IpamController } from "../../controller.ts";

const FINALIZER = "kubevirt.io/persistent-ipam";
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
  all.cluster.pool("blue", ["10.0.0.0/24"]);
  all.cluster.blockOf("10.0.0.0/28", { kind: "Shared" });
  claims.network("nad-blue", ["blue"]);
  claims.network("nad-green", ["blue"]);
});
afterEach(() => all.close());

const start = () => all.start(rig.client, { hasClaims: true, managesClaims: true, random: () => 0 });
const uidOf = ({ metadata }: Stored) => metadata.uid;
const claim = (name: string) => rig.server.store.find("tenant/ipamclaims", name);
const until = (isSo: () => boolean) => rig.until(isSo, 10);
const has = (...wanted: readonly string[]) =>
  until(() => claims.all.toSorted().join() === wanted.toSorted().join());
const remove = (collection: string, name: string) => all.cluster.remove(collection, name);
/** Looks as often as something could be done wrongly. */
const looks = () => all.looks(controller, 30, 30);
const said = async (text: string) => {
  await until(() => all.posted.some(({ note }) => note.includes(text)));
  return all.posted.find(({ note }) => note.includes(text));
};

describe("claims of a VM", () => {
  beforeEach(async () => {
    controller = await start();
  });

  it("are made as kubevirt/ipam-extensions makes them, one for each network (6, 7, 31, 40)", async () => {
    const vm = claims.vm("VM_1", { red: "nad-blue", net_a: "tenant/nad-blue" });
    claims.vmi("VM_1", { red: "nad-blue", net_a: "tenant/nad-blue" });
    const owner = `VirtualMachine ${uidOf(vm)}`;
    await has(`vm.1.red nad-blue-network ${owner}`, `vm.1.net.a nad-blue-network ${owner}`);
    expect(claim("vm.1.net.a")).toMatchObject({
      apiVersion: "k8s.cni.cncf.io/v1alpha1",
      kind: "IPAMClaim",
      metadata: {
        finalizers: [FINALIZER],
        labels: {
          "kubevirt.io/vm": "VM_1",
          "ipam.kube-vhostuser.io/vmi-interface": vmiInterfaceHash("VM_1", hashedPodInterfaceName("net_a")),
        },
        ownerReferences: [
          {
            apiVersion: "kubevirt.io/v1",
            kind: "VirtualMachine",
            name: "VM_1",
            uid: uidOf(vm),
            controller: true,
            blockOwnerDeletion: true,
          },
        ],
      },
      spec: { network: "nad-blue-network", interface: "" },
    });
    await until(() => Object.keys(claims.owners).length === 2);
  });

  it("are not made for other networks, and for a default one of Multus (4, 7, 31, 32)", async () => {
    claims.network("plain", ["blue"], { allowPersistentIPs: false });
    claims.attachment("ovn", { name: "ovn", type: "ovn-k8s-cni-overlay", allowPersistentIPs: true });
    const networks = { a: "plain", b: "ovn", c: "missing", d: "nad-blue", e: "nad-green" };
    const { name } = claims.vm("vm1", networks).metadata;
    const vmi = claims.vmi(name, networks);
    const spec = vmi["spec"] as { networks: { name: string; multus?: object }[] };
    await until(() => claims.all.length === 2);
    remove(VMI, "vm1");
    const asDefault = spec.networks.map((one) =>
      one.name === "e" ? { ...one, multus: { ...one.multus, default: true } } : one,
    );
    rig.server.store.create(VMI, {
      ...vmi,
      metadata: { name: "vm2", namespace: "tenant" },
      spec: { ...spec, networks: asDefault },
    });
    await until(() => claim("vm2.d") !== undefined);
    await looks();
    expect(
      rig.server.store
        .all("ipamclaims")
        .map(({ metadata }) => metadata.name)
        .sort(),
    ).toEqual(["vm1.d", "vm1.e", "vm2.d"]);
  });

  it("are made where the plugin of a list has the key, and refused in words where only the list has it", async () => {
    const ours = { type: "kube-vhostuser", ipam: { type: "kube-vhostuser-ipam", pools: ["blue"] } };
    claims.attachment("in-list", { name: "in-list", allowPersistentIPs: true, plugins: [ours] });
    claims.attachment("in-plugin", { name: "in-plugin", plugins: [{ ...ours, allowPersistentIPs: true }] });
    const networks = { list: "in-list", plugin: "in-plugin" };
    const vm = claims.vm("vm1", networks);
    claims.vmi("vm1", networks);
    await said('it has "allowPersistentIPs" beside "plugins" only');
    await has(`vm1.plugin in-plugin VirtualMachine ${uidOf(vm)}`);
  });

  it("are made by the next controller for VMs and instances that were made while there was none", async () => {
    all.end();
    await rig.until(() => rig.server.watches.length === 0);
    claims.vm("vm1", { red: "nad-blue" });
    claims.vmi("vm1", { red: "nad-blue" });
    claims.vmi("lone", { red: "nad-blue" });
    controller = await start();
    await until(() => ["vm1.red", "lone.red"].every((name) => claims.status(name).ips.length > 0));
  });

  it("stay while the VM is stopped, started and migrates, and go with it (2, 3, 5, 23)", async () => {
    const vm = claims.vm("vm1", { red: "nad-blue" });
    claims.vmi("vm1", { red: "nad-blue" });
    await until(() => claims.status("vm1.red").ips.length > 0);
    const { ips } = claims.status("vm1.red");
    remove(VMI, "vm1");
    await looks();
    claims.vmi("vm1", { red: "nad-blue" });
    await looks();
    expect(claims.status("vm1.red").ips).toEqual(ips);
    expect(claims.all).toEqual([`vm1.red nad-blue-network VirtualMachine ${uidOf(vm)}`]);
    remove(VMI, "vm1");
    remove(VM, "vm1");
    claims.collectGarbage();
    await has();
  });

  it("are held while the instance of a VM that is deleted in the foreground is there (22)", async () => {
    claims.vm("vm1", { red: "nad-blue" });
    claims.vmi("vm1", { red: "nad-blue" });
    await until(() => claim("vm1.red") !== undefined);
    rig.server.store.merge(VM, "vm1", { metadata: { finalizers: ["foregroundDeletion"] } });
    remove(VM, "vm1");
    remove("tenant/ipamclaims", "vm1.red");
    await looks();
    expect(claim("vm1.red")?.metadata["finalizers"]).toEqual([FINALIZER]);
    remove(VMI, "vm1");
    await has();
  });

  it("that are deleted go when the VM is stopped, and the VM gets others at its start", async () => {
    claims.vm("vm1", { red: "nad-blue" });
    claims.vmi("vm1", { red: "nad-blue" });
    await until(() => claim("vm1.red") !== undefined);
    remove("tenant/ipamclaims", "vm1.red");
    await looks();
    expect(claim("vm1.red")?.metadata["finalizers"]).toEqual([FINALIZER]);
    remove(VMI, "vm1");
    await has();
    claims.vmi("vm1", { red: "nad-blue" });
    await until(() => claim("vm1.red")?.metadata["finalizers"] !== undefined);
  });

  it("of an instance without a VM are held until its launcher is gone (24)", async () => {
    const vmi = claims.vmi("lone", { red: "nad-blue" }, "Running");
    await has();
    remove(VMI, "lone");
    const next = claims.vmi("lone", { red: "nad-blue" });
    expect(uidOf(next)).not.toBe(uidOf(vmi));
    await has(`lone.red nad-blue-network VirtualMachineInstance ${uidOf(next)}`);
    rig.server.store.merge(VMI, "lone", {
      metadata: { finalizers: ["foregroundDeleteVirtualMachine"] },
      status: { activePods: { pod: "n1" } },
    });
    remove(VMI, "lone");
    await looks();
    expect(claim("lone.red")?.metadata["finalizers"]).toEqual([FINALIZER]);
    rig.server.store.merge(VMI, "lone", { status: { activePods: null } });
    await until(
      () => (claim("lone.red")?.metadata["finalizers"] as readonly string[] | undefined)?.length === 0,
    );
  });

  it("of an earlier VM of the name go, and the VM gets claims of its own (17)", async () => {
    claims.vm("vm1", { red: "nad-blue" });
    claims.vmi("vm1", { red: "nad-blue" });
    await until(() => claims.status("vm1.red").ips.length > 0);
    // Deleted and made again before the controller sees it.
    all.end();
    await rig.until(() => rig.server.watches.length === 0);
    remove(VMI, "vm1");
    remove(VM, "vm1");
    const vm = claims.vm("vm1", { red: "nad-blue" });
    claims.vmi("vm1", { red: "nad-blue" });
    claims.collectGarbage();
    controller = await start();
    await has(`vm1.red nad-blue-network VirtualMachine ${uidOf(vm)}`);
  });

  it("go one by one: one that is gone already does not keep the others", async () => {
    claims.vm("vm1", { a: "nad-blue", b: "nad-blue", c: "nad-blue" });
    claims.vmi("vm1", { a: "nad-blue", b: "nad-blue", c: "nad-blue" });
    await until(() => claims.all.length === 3);
    await all.seen(controller);
    rig.server.store.merge("tenant/ipamclaims", "vm1.a", { metadata: { finalizers: null } });
    remove(VMI, "vm1");
    remove("tenant/ipamclaims", "vm1.a");
    remove(VM, "vm1");
    claims.collectGarbage();
    await has();
  });
});

describe("an interface", () => {
  beforeEach(async () => {
    controller = await start();
    claims.vm("vm1", { red: "nad-blue" });
    claims.vmi("vm1", { red: "nad-blue" });
    await until(() => claims.status("vm1.red").ips.length > 0);
    rig.server.store.merge(VMI, "vm1", { status: { phase: "Running" } });
  });
  const networks = (wanted: Readonly<Record<string, string>>, binding: object = { bridge: {} }) => {
    const spec = {
      networks: Object.entries(wanted).map(([name, networkName]) => ({ name, multus: { networkName } })),
      domain: { devices: { interfaces: Object.keys(wanted).map((name) => ({ name, ...binding })) } },
    };
    rig.server.store.merge(VM, "vm1", { spec: { template: { spec } } });
    rig.server.store.merge(VMI, "vm1", { spec });
  };

  it("that is plugged into a running VM gets a claim (20), one of a binding plugin is refused in words", async () => {
    networks({ red: "nad-blue", hot: "nad-blue" });
    await until(() => claims.status("vm1.hot").ips.length > 0);
    networks({ red: "nad-blue", hot: "nad-blue", user: "nad-blue" }, { binding: { name: "vhostuser" } });
    const event = await said("network user gets no IPAMClaim");
    expect(event).toMatchObject({
      reason: "InterfaceClaimRefused",
      regarding: { kind: "VirtualMachineInstance", name: "vm1" },
    });
    await looks();
    expect(all.posted).toHaveLength(1);
    expect(claim("vm1.user")).toBeUndefined();
  });

  it("that is unplugged gives its claim back when no pod has the address any more (21)", async () => {
    const [address = ""] = claims.status("vm1.red").ips;
    claims.launcher("vm1", [
      { name: "nad-blue", interface: "net1", claim: "vm1.red", ips: [address.split("/")[0] ?? ""] },
    ]);
    networks({});
    await looks();
    expect(claim("vm1.red")).toBeDefined();
    remove("tenant/pods", "virt-launcher-vm1-aaaaa");
    await looks();
    await has();
  });

  it("whose network is changed while the VM runs keeps its claim, and that is said; a restart gives it another", async () => {
    networks({ red: "nad-green" });
    await said("network red was changed to nad-green-network while the VM runs");
    await looks();
    expect(claims.all[0]).toContain("vm1.red nad-blue-network");
    remove(VMI, "vm1");
    claims.vmi("vm1", { red: "nad-green" });
    await until(() => claims.all[0]?.startsWith("vm1.red nad-green-network") === true);
  });

  it("of which the claim's name is another owner's, or another network's, is refused in words", async () => {
    claims.claim("vm1.blue", "nad-blue-network", { labels: { "kubevirt.io/vm": "vm1" } });
    await all.seen(controller);
    networks({ red: "nad-blue", blue: "nad-blue", Red: "nad-blue" });
    await said("IPAMClaim vm1.blue belongs to another owner");
    await said("IPAMClaim vm1.red belongs to another network of the VM");
  });
});

describe("where kubevirt/ipam-extensions is installed", () => {
  const webhook = () =>
    rig.server.store.create("mutatingwebhookconfigurations", {
      metadata: { name: "kubevirt-ipam-controller-mutating-webhook-configuration" },
      webhooks: [{ name: "ipam-claims.k8s.cni.cncf.io" }],
    });

  it("no claims are made, and that is said; when it is removed its claims are taken over", async () => {
    const { name } = webhook().metadata;
    controller = await start();
    const vm = claims.vm("vm1", { red: "nad-blue" });
    claims.vmi("vm1", { red: "nad-blue" });
    expect((await said("kubevirt/ipam-extensions makes"))?.reason).toBe("ClaimsManagedElsewhere");
    await looks();
    expect(claims.all).toEqual([]);
    expect(controller.claims?.manager?.isManaging).toBe(false);
    claims.claim("vm1.red", "nad-blue-network", {
      labels: { "kubevirt.io/vm": "vm1" },
      finalizers: [FINALIZER],
      ownerReferences: [
        { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name: "vm1", uid: uidOf(vm) },
      ],
    });
    await looks();
    remove("mutatingwebhookconfigurations", name);
    await looks();
    await until(() => JSON.stringify(claim("vm1.red")?.metadata["labels"]).includes("vmi-interface"));
  });

  it("nothing is done while that cannot be read", async () => {
    controller = await start();
    await until(() => controller.claims?.manager?.isManaging === true);
    rig.server.illnesses.push({ kind: "status", status: 500 });
    await controller.claims?.manager?.pass(all.signal);
    expect(controller.claims?.manager?.isManaging).toBeUndefined();
    claims.vm("vm1", { red: "nad-blue" });
    claims.vmi("vm1", { red: "nad-blue" });
    await rig.clock.advance(1_000);
    expect(claims.all).toEqual([]);
    await controller.pass(all.signal);
    await until(() => claims.all.length === 1);
  });
});
