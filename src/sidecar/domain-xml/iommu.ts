import { type DomainDocument, firstChild } from "./document.ts";
import { appendChild, childIndent, deeper, type Edit } from "./edits.ts";
import { invalidDomain } from "./scan.ts";

/** Models of libvirt that translate for virtio devices: Intel's on q35, Arm's on virt. */
export type IommuModel = "intel" | "smmuv3";

const IOAPIC = '<ioapic driver="qemu"></ioapic>';

/**
 * The edits that give the guest a virtual IOMMU; an existing one is not changed. vfio-pci in the guest
 * wants interrupt remapping, which Intel's has only with the I/O APIC in QEMU. Vhost-user backends learn
 * of invalidated addresses through the device IOTLB.
 * @throws Failure `invalid-domain` where the I/O APIC is asked to be in the kernel
 */
export function editIommu(document: DomainDocument, model: IommuModel): Edit[] {
  const { text, root } = document;
  const devices = firstChild(root, "devices");
  if (devices === undefined || firstChild(devices, "iommu") !== undefined) return [];
  if (model === "smmuv3") return [appendChild(text, devices, '<iommu model="smmuv3"></iommu>')];
  const indent = childIndent(text, devices);
  const driver = `${deeper(indent)}<driver intremap="on" iotlb="on"></driver>`;
  return [
    ...editIoapic(document),
    appendChild(text, devices, `<iommu model="intel">${driver}${indent}</iommu>`),
  ];
}

function editIoapic({ text, root }: DomainDocument): Edit[] {
  const features = firstChild(root, "features");
  if (features === undefined) {
    const indent = childIndent(text, root);
    return [appendChild(text, root, `<features>${deeper(indent)}${IOAPIC}${indent}</features>`)];
  }
  const ioapic = firstChild(features, "ioapic");
  if (ioapic === undefined) return [appendChild(text, features, IOAPIC)];
  const driver = ioapic.attributes.get("driver");
  if (driver === "qemu") return [];
  throw invalidDomain(
    `the domain has <ioapic driver=${JSON.stringify(driver ?? "")}>, and interrupt remapping needs "qemu"`,
    "<features>",
    "look for another hook sidecar that writes it, or remove iommu from the VM's annotation",
  );
}
