import { chown, mkdir, readFile, readlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Container } from "../lab/pod.ts";
import { reserveHugepages } from "../machine/hugepages.ts";
import { type LabRun, openLabRun } from "../machine/lab-run.ts";
import { runProgram } from "../machine/run-program.ts";
import { type NetworkStatus, podInterfaceName } from "../stand-in/virt-launcher/network-info.ts";
import type { DefinedVm, KubevirtVersion } from "../stand-in/virt-launcher/virt-launcher.ts";
import type { VirtualMachineInstance } from "../stand-in/virt-launcher/vmi.ts";
import { child, parseXml, type XmlNode } from "../stand-in/virt-launcher/xml-tree.ts";
import { type SidecarPod, startSidecarPod } from "./sidecar-pod.ts";
import { VhostUserPeer } from "./sidecar-vhost-peer.ts";

type Domain = VirtualMachineInstance["spec"]["domain"];
type Interfaces = NonNullable<Domain["devices"]["interfaces"]>;

let run: LabRun;
let flat: SidecarPod;
let nested: SidecarPod;
let sidecar: Container;

beforeAll(async () => {
  run = await openLabRun();
  [flat, nested] = await Promise.all([
    startSidecarPod(run, "flat", "flat"),
    startSidecarPod(run, "nested", "nested"),
  ]);
  [, sidecar] = await Promise.all([flat.startSidecar(), nested.startSidecar()]);
});
afterAll(() => run?.close());

const BLUE = { name: "blue", binding: { name: "vhostuser" }, macAddress: "02:00:00:00:00:01" };
const RED = { name: "red", binding: { name: "vhostuser" } };

/** A VM, by default with two NICs of ours. */
function vmi(domain: Partial<Domain> = {}, nics: Interfaces = [BLUE, RED]): VirtualMachineInstance {
  return {
    metadata: { name: "router", namespace: "tests" },
    spec: {
      architecture: "amd64",
      domain: {
        cpu: { cores: 2, sockets: 1, threads: 1 },
        machine: { type: "q35" },
        memory: { guest: "128Mi" },
        ...domain,
        devices: { networkInterfaceMultiqueue: true, interfaces: nics, ...domain.devices },
      },
      networks: nics.map(({ name, masquerade }) =>
        masquerade === undefined ? { name, multus: { networkName: name } } : { name, pod: {} },
      ),
    },
  };
}

/** What Multus says of the interfaces of ours; `directory` is where their sockets are, as compute sees it. */
function statuses(guest: VirtualMachineInstance, directory?: string): NetworkStatus[] {
  const ours = (guest.spec.domain.devices.interfaces ?? []).filter((one) => one.binding !== undefined);
  return ours.map(({ name }, index) => {
    const pod = podInterfaceName(guest, name);
    const path =
      directory === undefined
        ? `/var/run/vhostuser/sockets/${pod}/vhost.sock`
        : `${directory}/${name}/vhost.sock`;
    return {
      name: `tests/${name}`,
      interface: pod,
      mac: `02:00:00:00:01:0${index}`,
      mtu: 9000 + index,
      "device-info": { type: "vhost-user", version: "1.1.0", "vhost-user": { mode: "server", path } },
    };
  });
}

const SCHEMA = "/usr/share/libvirt/schemas/domain.rng";
/** Files of all domains that libvirt defined, for its schema, which takes longer to read than a domain to check. */
const domains: string[] = [];

/** How a VM is defined, and what is done with it before libvirt is left without it. */
interface Defining<Result> {
  readonly hostNumaNodes?: number;
  readonly published?: readonly NetworkStatus[];
  readonly use: (vm: DefinedVm, pod: SidecarPod) => Promise<Result>;
}

async function withVm<Result>(
  guest: VirtualMachineInstance,
  version: KubevirtVersion,
  { hostNumaNodes = 1, published = statuses(guest), use }: Defining<Result>,
): Promise<Result> {
  const pod = ["1.3", "1.5"].includes(version) ? flat : nested;
  await pod.publish(guest, published);
  const launcher = pod.launcher(version, { hostNumaNodes });
  await launcher.collectHooks(1);
  const vm = await launcher.defineVm(guest);
  try {
    const file = join(run.directory, `domain-${domains.length}.xml`);
    domains.push(file);
    await writeFile(file, vm.xml);
    return await use(vm, pod);
  } finally {
    await pod.libvirt.undefine(vm.name);
  }
}

const defined = (guest: VirtualMachineInstance, version: KubevirtVersion, hostNumaNodes = 1) =>
  withVm(guest, version, { hostNumaNodes, use: async (vm) => vm });

/** A defined VM as QEMU's command line. */
const commandOf = (vm: DefinedVm, pod: SidecarPod) =>
  pod.libvirt.virsh("domxml-to-native", "qemu-argv", "--domain", vm.name);

/** Starts a VM's QEMU with a switch at each socket, and gives the domain as QEMU has it. */
async function start({ name }: DefinedVm, { libvirt }: SidecarPod, directories: readonly string[]) {
  for (const one of directories) {
    await mkdir(one, { recursive: true });
    await chown(one, 107, 107);
  }
  const peers = directories.map((one) => new VhostUserPeer(join(one, "vhost.sock")));
  try {
    const connecting = peers.map((peer) => peer.connect());
    await libvirt.virsh("start", "--paused", name);
    await Promise.all(connecting);
    expect(await libvirt.state(name)).toBe("paused");
    return await libvirt.virsh("dumpxml", "--migratable", name);
  } finally {
    for (const peer of peers) peer.close();
    await libvirt.destroy(name).catch(() => undefined);
  }
}

/** The directories of a VM's sockets on the constant path, as the machine sees them. */
const constantDirectories = (guest: VirtualMachineInstance, pod: SidecarPod) =>
  (guest.spec.networks ?? []).map(({ name }) => join(pod.constantMount, podInterfaceName(guest, name)));

const nics = (domain: XmlNode) =>
  child(domain, "devices")?.children.filter((one) => one.name === "interface") ?? [];
const alias = (nic: XmlNode) => child(nic, "alias")?.attributes["name"];
const ours = (xml: string) => nics(parseXml(xml)).filter((nic) => nic.attributes["type"] === "vhostuser");
const withoutAddress = (nic: XmlNode) => nic.children.filter((one) => one.name !== "address");

const LAYOUTS: Readonly<Record<string, VirtualMachineInstance>> = {
  "plain memory": vmi(),
  "hugepages with memfd": vmi({ memory: { guest: "128Mi", hugepages: { pageSize: "2Mi" } } }),
  "hugepages without memfd": withAnnotation(
    vmi({ memory: { guest: "128Mi", hugepages: { pageSize: "2Mi" } } }),
    "kubevirt.io/memfd",
    "false",
  ),
  "NUMA mapped from the host": vmi({
    cpu: { cores: 4, dedicatedCpuPlacement: true, numa: { guestMappingPassthrough: {} } },
    memory: { guest: "128Mi", hugepages: { pageSize: "2Mi" } },
  }),
  "memory that can be plugged": vmi({ memory: { guest: "128Mi", maxGuest: "256Mi" } }),
  "hugepages that can be plugged": vmi({
    memory: { guest: "128Mi", maxGuest: "256Mi", hugepages: { pageSize: "2Mi" } },
  }),
  "CPUs that can be plugged": vmi({ cpu: { cores: 2, sockets: 1, threads: 1, maxSockets: 4 } }),
};

function withAnnotation(guest: VirtualMachineInstance, key: string, value: string): VirtualMachineInstance {
  return { ...guest, metadata: { ...guest.metadata, annotations: { [key]: value } } };
}

// One release for each way to call the hook; src/sidecar/kubevirt-versions.test.ts plays every one.
describe.each(Object.entries(LAYOUTS))("a VM with %s", (layout, guest) => {
  it("is defined through KubeVirt 1.3, 1.9 and main, and starts, all of its memory shared", async () => {
    if (layout.includes("hugepages") || layout.includes("NUMA")) await reserveHugepages(run, 2048, 72);
    const inNested = async () => [await defined(guest, "1.9"), await withVm(guest, "main", { use })] as const;
    const use = async (vm: DefinedVm, pod: SidecarPod) => {
      const command = await commandOf(vm, pod);
      return { vm, command, running: await start(vm, pod, constantDirectories(guest, pod)) };
    };
    const [old, [newer, { vm, command, running }]] = await Promise.all([defined(guest, "1.3"), inNested()]);
    for (const one of [old, newer, vm]) {
      expectOneStableNicEach(one);
      expect(one.xml).toContain('<access mode="shared">');
      expect(one.xml).not.toMatch(/<cell(?![^>]* memAccess="shared")/);
    }
    const backends = command.match(/"qom-type":"memory-backend-[^}]*/g) ?? [];
    expect(backends).not.toEqual([]);
    expect(backends.filter((one) => !one.includes('"share":true'))).toEqual([]);
    // A file on disk would be shared too, and slow beyond use.
    expect(backends.filter((one) => one.includes("mem-path") && !one.includes("/dev/hugepages"))).toEqual([]);
    expect(/ -smp (\d+)/.exec(command)?.[1]).toBe(guest.spec.domain.cpu?.cores?.toString());
    expect(running).toContain("<access mode='shared'/>");
  });
});

it("shares every NUMA cell of a VM on two host nodes", async () => {
  const { xml } = await defined(LAYOUTS["NUMA mapped from the host"] ?? vmi(), "1.9", 2);
  const cells = child(child(parseXml(xml), "cpu"), "numa")?.children ?? [];
  expect(cells.map(({ attributes }) => [attributes["id"], attributes["memAccess"]])).toEqual([
    ["0", "shared"],
    ["1", "shared"],
  ]);
});

function expectOneStableNicEach(vm: DefinedVm): void {
  const last = ours(vm.xml);
  expect(last.map(alias)).toEqual(["ua-blue", "ua-red"]);
  for (const call of vm.calls) {
    const now = ours(call.output);
    expect(now.map(withoutAddress)).toEqual(last.map(withoutAddress));
  }
}

describe("the calls of one VM's start", () => {
  const three = [{ name: "default", masquerade: {} }, BLUE, RED];
  const four = [...three, { name: "green", binding: { name: "vhostuser" } }];
  it.each<[KubevirtVersion, number, number]>([
    ["1.7", 2, 2],
    ["1.8", 3, 2],
    ["main", 3, 2],
  ])("of KubeVirt %s: %i with free NIC slots, %i without", async (version, withSlots, without) => {
    const use = async (vm: DefinedVm, { libvirt }: SidecarPod) => {
      expect(nics(parseXml(await libvirt.dumpInactiveXml(vm.name))).map(alias)).toEqual([
        "ua-default",
        "ua-blue",
        "ua-red",
      ]);
      return vm;
    };
    const plenty = await withVm(vmi({}, three), version, { use });
    expect(plenty.calls).toHaveLength(withSlots);
    const full = await defined(vmi({}, four), version);
    expect(full.calls).toHaveLength(without);
    const addressOf = (nic: XmlNode) => child(nic, "address")?.attributes;
    const inCall = ours(full.calls.at(-1)?.input ?? "").map(addressOf);
    if (version !== "main") return;
    expect(inCall.filter((address) => address?.["type"] === "pci")).toHaveLength(3);
    expect(ours(full.xml).map(addressOf)).toEqual(inCall);
  });

  it("put the NICs on the root bus where the VM asks for it, and libvirt keeps them there", async () => {
    const guest = withAnnotation(vmi({}, three), "kubevirt.io/placePCIDevicesOnRootComplex", "true");
    const use = async (vm: DefinedVm, { libvirt }: SidecarPod) => libvirt.dumpInactiveXml(vm.name);
    const read = await withVm(guest, "main", { use });
    const buses = ours(read).map((nic) => child(nic, "address")?.attributes["bus"]);
    expect(buses).toEqual(["0x00", "0x00"]);
  });
});

describe("the VM example of the KubeVirt proposal", () => {
  it("becomes the interface that the proposal shows", async () => {
    const file = new URL("../fixtures/kubevirt/vm-example.json", import.meta.url);
    const machine = JSON.parse(await readFile(file, "utf8"));
    const guest: VirtualMachineInstance = { metadata: machine.metadata, spec: machine.spec.template.spec };
    const use = async (vm: DefinedVm, pod: SidecarPod) => ({ vm, command: await commandOf(vm, pod) });
    const { vm, command } = await withVm(guest, "1.9", { use });
    const [nic, ...others] = ours(vm.xml);
    expect(others).toEqual([]);
    expect(nic?.children.map(({ name, attributes }) => [name, attributes])).toEqual([
      ["mac", { address: "ca:fe:ca:fe:42:42" }],
      [
        "source",
        { type: "unix", path: "/var/run/vhostuser/sockets/pod6c270ef2f25/vhost.sock", mode: "server" },
      ],
      ["target", { dev: "pod6c270ef2f25" }],
      ["model", { type: "virtio-non-transitional" }],
      ["driver", { name: "vhost", queues: "4", rx_queue_size: "1024", tx_queue_size: "1024" }],
      ["rom", { enabled: "no" }],
      ["alias", { name: "ua-net1" }],
    ]);
    expect(vm.xml).toContain('memAccess="shared"');
    expect(command).toContain('"share":true');
  });
});

it("every domain so far fits libvirt's schema", async () => {
  expect(domains.length).toBeGreaterThan(3 * Object.keys(LAYOUTS).length);
  await runProgram("xmllint", ["--noout", "--relaxng", SCHEMA, ...domains]);
});

describe("QEMU", () => {
  const everything = (): VirtualMachineInstance =>
    vmi({ devices: { useVirtioTransitional: true, networkInterfaceMultiqueue: true } }, [
      { name: "blue", binding: { name: "vhostuser" }, bootOrder: 1, acpiIndex: 7, state: "down" },
      { name: "red", binding: { name: "vhostuser" } },
    ]);

  const mixed = (): VirtualMachineInstance => {
    const guest = everything();
    return {
      ...guest,
      spec: {
        ...guest.spec,
        networks: [
          { name: "blue", multus: { networkName: "blue" } },
          { name: "red", resourceClaim: { claimName: "net", requestName: "port" } },
        ],
        resourceClaims: [{ name: "net", resourceClaimTemplateName: "ports" }],
      },
    };
  };

  const started = (guest: VirtualMachineInstance, published: NetworkStatus[], directories: string[]) =>
    withVm(guest, "1.9", { published, use: (vm, pod) => start(vm, pod, directories) });

  it("starts with sockets behind a stable link and everything that an interface can have", async () => {
    const guest = everything();
    const onMachine = ["blue", "red"].map((name) => join(nested.foreignMount, "a1", name));
    const xml = await started(guest, statuses(guest, "/var/run/foreign/a1"), onMachine);
    expect(xml.match(/name='host_mtu' type='unsigned' value='900\d'/g)).toHaveLength(2);
  });

  it("starts with one socket of our device plugin and one of a DRA driver", async () => {
    const guest = mixed();
    const claims = join(nested.metadata, "resourceclaimtemplates/net/port");
    await mkdir(claims, { recursive: true });
    const device = {
      driver: "ovsdpdk.k8snetworkplumbingwg.io",
      pool: "node-1",
      name: "br0",
      attributes: {
        "vhost-user-path": { string: "/var/run/foreign/net/port/vhost.sock" },
        mtu: { int: 4000 },
      },
    };
    const metadata = {
      apiVersion: "metadata.resource.k8s.io/v1alpha1",
      kind: "DeviceMetadata",
      requests: [{ name: "port", devices: [device] }],
    };
    await writeFile(join(claims, "ovsdpdk.k8snetworkplumbingwg.io-metadata.json"), JSON.stringify(metadata));
    const xml = await started(guest, statuses(guest).slice(0, 1), [
      join(nested.constantMount, podInterfaceName(guest, "blue")),
      join(nested.foreignMount, "net/port"),
    ]);
    expect(xml).toContain("path='/var/run/foreign/net/port/vhost.sock'");
    expect(xml).toContain("value='4000'");
  });

  it("starts with fewer queues, other rings, packed ones and a virtual IOMMU", async () => {
    const settings = { blue: { queues: 2, rxQueueSize: 256, txQueueSize: 512, packed: true, iommu: true } };
    const guest = withAnnotation(
      vmi({ cpu: { cores: 4 } }, [{ name: "blue", binding: { name: "vhostuser" } }]),
      "vhostuser/interfaces",
      JSON.stringify(settings),
    );
    const xml = await started(guest, statuses(guest), constantDirectories(guest, nested));
    for (const words of ["queues='2'", "rx_queue_size='256'", "tx_queue_size='512'", "packed='on'"]) {
      expect(xml).toContain(words);
    }
    expect(xml).toMatch(/<iommu model='intel'>\s*<driver intremap='on' iotlb='on'/);
  });
});

describe("the sidecar's container", () => {
  it("makes the stable link on the target of a migration, whose answer is not used", async () => {
    const guest = vmi();
    await nested.publish(guest, statuses(guest, "/var/run/foreign/target"));
    const launcher = nested.launcher("1.9");
    await launcher.collectHooks(1);
    await launcher.prepareMigrationTarget(guest);
    const link = join(nested.hooks, "hook-sidecar-0/vhostuser", podInterfaceName(guest, "blue"));
    expect(await readlink(link)).toBe("/var/run/foreign/target/blue");
  });

  it("runs without root, capabilities, network and a root that it could write to", async () => {
    const network = await readFile(`/proc/${sidecar.hostPid}/net/dev`, "utf8");
    expect([...network.matchAll(/^\s*(\w+):/gm)].map(([, name]) => name)).toEqual(["lo"]);
    const mounts = await readFile(`/proc/${sidecar.hostPid}/mounts`, "utf8");
    expect(mounts).toMatch(/^\S+ \/ tmpfs ro,/m);
    const status = await readFile(`/proc/${sidecar.hostPid}/status`, "utf8");
    expect(status).toMatch(/^Uid:\t107\t107\t107\t107$/m);
    expect(status).toMatch(/^CapBnd:\t0+$/m);
  });

  it("serves again after it was killed, and ends with 0 on SIGTERM and on Shutdown", async () => {
    sidecar.kill("SIGKILL");
    await sidecar.ended;
    const second = await nested.startSidecar();
    await nested.launcher("1.9").collectHooks(1);
    second.kill("SIGTERM");
    expect(await second.ended).toBe(0);
    const third = await nested.startSidecar();
    const launcher = nested.launcher("1.9");
    await launcher.collectHooks(1);
    await launcher.shutdown();
    expect(await third.ended).toBe(0);
  });
});
