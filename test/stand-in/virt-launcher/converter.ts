import { createHash } from "node:crypto";
import { cpuTopology, type MemoryPlan, planMemory } from "./memory-plan.ts";
import { isOnRootComplex, placedOnRootComplex } from "./pci-slots.ts";
import type { VirtualMachineInstance, VmiInterface } from "./vmi.ts";
import { node, type XmlNode } from "./xml-tree.ts";

/** What the host and the release add to a VMI. */
export interface ConverterOptions {
  /** KubeVirt writes `kvm`; a machine without it runs the same domain as `qemu`. */
  readonly domainType?: "kvm" | "qemu";
  /** NUMA nodes of the host that `guestMappingPassthrough` maps to. */
  readonly hostNumaNodes?: number;
}

const QEMU_NAMESPACE = "http://libvirt.org/schemas/domain/qemu/1.0";

/** A VMI as the domain that KubeVirt makes of it before any hook runs (KubeVirt names them alike). */
export function convertVmi(vmi: VirtualMachineInstance, options: ConverterOptions = {}): XmlNode {
  const { domain, architecture = "amd64" } = vmi.spec;
  const memory = planMemory(vmi, options.hostNumaNodes ?? 1);
  const { vcpus } = cpuTopology(vmi);
  const converted = node("domain", { type: options.domainType ?? "kvm", "xmlns:qemu": QEMU_NAMESPACE }, [
    node("name", {}, domainName(vmi)),
    node("uuid", {}, uuidOf(vmi)),
    node("memory", { unit: "b" }, String(memory.bytes)),
    memory.maxMemory,
    memory.backing,
    os(architecture, domain.machine?.type ?? "q35"),
    devices(vmi, memory),
    node("clock", { offset: "utc" }, [node("timer", { name: "rtc", tickpolicy: "catchup" })]),
    node("features", {}, [node("acpi")]),
    cpu(vmi, memory, options.domainType ?? "kvm"),
    node("vcpu", { placement: "static" }, String(vcpus)),
    memory.vcpus,
    memory.numatune,
    node("iothreads", {}, "1"),
    node("qemu:commandline", {}, [
      node("qemu:arg", { value: "-fw_cfg" }),
      node("qemu:arg", { value: "name=opt/org.kubevirt.test,string=a&b <c>" }),
    ]),
  ]);
  return isOnRootComplex(vmi) && architecture !== "s390x" ? placedOnRootComplex(converted) : converted;
}

/** libvirt's name of a VMI. */
export function domainName(vmi: VirtualMachineInstance): string {
  return `${vmi.metadata.namespace}_${vmi.metadata.name}`;
}

/** libvirt's model of a virtio device. */
export function virtioModel(vmi: VirtualMachineInstance): string {
  if (vmi.spec.architecture === "s390x") return "virtio";
  return vmi.spec.domain.devices.useVirtioTransitional === true
    ? "virtio-transitional"
    : "virtio-non-transitional";
}

function uuidOf(vmi: VirtualMachineInstance): string {
  const hex = createHash("sha256").update(domainName(vmi)).digest("hex");
  return hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, "$1-$2-5$3-8$4-$5");
}

function os(architecture: string, machine: string): XmlNode {
  const arch = { amd64: "x86_64", arm64: "aarch64", s390x: "s390x" }[architecture] ?? architecture;
  return node("os", {}, [node("type", { arch, machine }, "hvm")]);
}

function cpu(vmi: VirtualMachineInstance, memory: MemoryPlan, domainType: string): XmlNode {
  const { sockets, cores, threads } = cpuTopology(vmi);
  const mode = domainType === "kvm" ? { mode: "host-model" } : {};
  return node("cpu", mode, [node("topology", { sockets, cores, threads }), memory.numa]);
}

function devices(vmi: VirtualMachineInstance, memory: MemoryPlan): XmlNode {
  const model = virtioModel(vmi);
  const { devices: asked } = vmi.spec.domain;
  const isPciMachine = vmi.spec.architecture !== "s390x";
  return node("devices", {}, [
    ...(asked.interfaces ?? []).map((one, index) => ownInterface(vmi, one, index)),
    node("channel", { type: "unix" }, [node("target", { name: "org.qemu.guest_agent.0", type: "virtio" })]),
    isPciMachine ? node("controller", { type: "usb", index: 0, model: "none" }) : undefined,
    node("controller", { type: "virtio-serial", index: 0, model: isPciMachine ? model : undefined }),
    node("video", {}, [node("model", { type: "vga", heads: 1, vram: 16384 })]),
    node("memballoon", { model }, [node("stats", { period: 10 })]),
    ...(asked.disks ?? []).map((disk, index) => diskNode(disk.name, index, model)),
    memory.device,
  ]);
}

function diskNode(name: string, index: number, model: string): XmlNode {
  return node("disk", { device: "disk", type: "file", model }, [
    node("source", { file: `/var/run/kubevirt-ephemeral-disks/disk-data/${name}/disk.qcow2` }),
    node("target", { bus: "virtio", dev: `vd${String.fromCharCode(97 + index)}` }),
    node("driver", { cache: "none", error_policy: "stop", name: "qemu", type: "qcow2", discard: "unmap" }),
    node("alias", { name: `ua-${name}` }),
  ]);
}

/** KubeVirt's own bindings; for a plugin with no domainAttachmentType, as ours, and for SR-IOV it makes nothing. */
function ownInterface(vmi: VirtualMachineInstance, one: VmiInterface, index: number): XmlNode | undefined {
  if (one.state === "absent" || (one.masquerade === undefined && one.bridge === undefined)) return undefined;
  const { vcpus, current } = cpuTopology(vmi);
  const queues = Math.min(current ?? vcpus, 256);
  const multiqueue = vmi.spec.domain.devices.networkInterfaceMultiqueue === true;
  return node("interface", { type: "ethernet" }, [
    node("source"),
    node("target", { dev: `tap${index}`, managed: "no" }),
    node("model", { type: one.model ?? virtioModel(vmi) }),
    one.macAddress === undefined ? undefined : node("mac", { address: one.macAddress }),
    node("mtu", { size: 1500 }),
    one.bootOrder === undefined ? undefined : node("boot", { order: one.bootOrder }),
    node("alias", { name: `ua-${one.name}` }),
    multiqueue ? node("driver", { name: "vhost", queues }) : undefined,
    one.bootOrder === undefined && vmi.spec.architecture !== "s390x"
      ? node("rom", { enabled: "no" })
      : undefined,
  ]);
}
