import type { Habits } from "./habits.ts";
import type { VirtualMachineInstance } from "./vmi.ts";
import { child, node, withChild, type XmlNode } from "./xml-tree.ts";

/** Annotation of a VMI whose PCI devices shall be on the root complex, without root ports. */
const ON_ROOT_COMPLEX = "kubevirt.io/placePCIDevicesOnRootComplex";
const INTERFACE_SLOTS = 4;
/** Bytes of memory from which on a VM gets more slots. */
const LARGE_MEMORY = 2 * 1024 ** 3;
/** Slots of VGA, of the sound card and of SATA, which KubeVirt leaves free. */
const RESERVED_SLOTS: readonly number[] = [0, 0x01, 0x1b, 0x1f];
const LAST_BUS = 31;

/** Whether the annotation is set. */
export const isOnRootComplex = (vmi: VirtualMachineInstance): boolean =>
  vmi.metadata.annotations?.[ON_ROOT_COMPLEX] === "true";

/** Whether the machine has PCIe slots into which devices can be plugged. */
export function hasPcieSlots({ spec }: VirtualMachineInstance): boolean {
  const machine = spec.domain.machine?.type ?? "q35";
  return spec.architecture !== "s390x" && (machine.includes("q35") || machine.startsWith("virt"));
}

/** Placeholder NICs, and root ports added behind them, that a release gives a VM. */
export function planFreeSlots(
  domain: XmlNode,
  vmi: VirtualMachineInstance,
  kind: Habits["freeSlots"],
): { readonly placeholders: number; readonly rootPorts: number } {
  if (isOnRootComplex(vmi)) return { placeholders: 0, rootPorts: 0 };
  const nics = vmi.spec.domain.devices.interfaces?.length ?? 0;
  const isLarge = Number(child(domain, "memory")?.text) > LARGE_MEMORY;
  const [all, least] = isLarge ? [16, 6] : [8, 3];
  const wanted = Math.max(all - pciDevices(domain).length, least);
  if (kind === "by memory") return { placeholders: wanted, rootPorts: 0 };
  const placeholders = nics === 0 ? 0 : Math.max(0, INTERFACE_SLOTS - nics);
  return { placeholders, rootPorts: kind === "both" ? Math.max(0, wanted - placeholders) : 0 };
}

/** The domain with so many root ports behind the last bus that it has. */
export function withRootPorts(domain: XmlNode, count: number): XmlNode {
  const devices = child(domain, "devices") ?? node("devices");
  const buses = devices.children.flatMap(({ name, attributes }) =>
    name === "controller" && attributes["type"] === "pci" ? [Number(attributes["index"])] : [],
  );
  const next = Math.max(0, ...buses) + 1;
  const ports = [...Array(Math.min(count, LAST_BUS + 1 - next)).keys()].map((index) =>
    node("controller", { type: "pci", index: next + index, model: "pcie-root-port" }),
  );
  return withChild(domain, { ...devices, children: [...devices.children, ...ports] });
}

/** The domain with every PCI device that KubeVirt knows in a slot of the root bus. */
export function placedOnRootComplex(domain: XmlNode): XmlNode {
  const devices = child(domain, "devices") ?? node("devices");
  const slots = [...Array(32).keys()].filter((slot) => !RESERVED_SLOTS.includes(slot)).values();
  const placed = new Map(
    pciDevices(domain).map((device) => {
      const slot = `0x${slots.next().value?.toString(16)}`;
      const address = { type: "pci", domain: "0x0000", bus: "0x00", slot, function: "0x0" };
      return [device, withChild(device, node("address", address))];
    }),
  );
  return withChild(domain, { ...devices, children: devices.children.map((one) => placed.get(one) ?? one) });
}

/** In the order in which KubeVirt gives them slots. */
function pciDevices(domain: XmlNode): readonly XmlNode[] {
  const all = child(domain, "devices")?.children ?? [];
  const named = (name: string) => all.filter((one) => one.name === name);
  return [
    ...named("interface"),
    ...named("controller").filter(({ attributes }) => !/^pcie?-root$/.test(attributes["model"] ?? "")),
    ...named("disk").filter((disk) => child(disk, "target")?.attributes["bus"] === "virtio"),
    ...named("memballoon"),
  ];
}
