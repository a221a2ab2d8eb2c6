import { childrenNamed, type DomainDocument, firstChild, type XmlElement } from "./document.ts";
import { appendChild, childIndent, deeper, type Edit, escapeAttribute } from "./edits.ts";

/** A NIC by its name in the VMI, and what the guest shall be told of its MTU. */
export interface GuestMtu {
  readonly name: string;
  readonly mtu: number;
}

/** What a guest takes when it is told nothing. */
const DEFAULT_MTU = 1500;
const QEMU_NAMESPACE = "http://libvirt.org/schemas/domain/qemu/1.0";

/**
 * The edits that make QEMU tell the guest each NIC's MTU. libvirt's own `<mtu>` cannot be used: for a vhostuser
 * interface libvirt (11.3) also sets it on a network device of the pod, which doesn't exist, and refuses to start
 * the domain. So the property of QEMU's device is set by `<qemu:override>`, and not at all where it is
 * what a guest has anyway.
 */
export function editGuestMtu(document: DomainDocument, nics: readonly GuestMtu[]): Edit[] {
  const { text, root } = document;
  const override = firstChild(root, "qemu:override");
  const missing: GuestMtu[] = [];
  const edits: Edit[] = [];
  for (const nic of nics) {
    const device = childrenNamed(override, "qemu:device").find(
      (one) => one.attributes.get("alias") === `ua-${nic.name}`,
    );
    if (device !== undefined) edits.push(...editDevice(text, device, nic.mtu));
    else if (nic.mtu !== DEFAULT_MTU) missing.push(nic);
  }
  if (missing.length === 0) return edits;
  const indent = override === undefined ? deeper(childIndent(text, root)) : childIndent(text, override);
  const devices = missing.map((nic) => deviceXml(nic, indent)).join(indent);
  if (override !== undefined) return [...edits, appendChild(text, override, devices)];
  const declared =
    root.attributes.get("xmlns:qemu") === QEMU_NAMESPACE ? "" : ` xmlns:qemu="${QEMU_NAMESPACE}"`;
  const xml = `<qemu:override${declared}>${indent}${devices}${childIndent(text, root)}</qemu:override>`;
  return [...edits, appendChild(text, root, xml)];
}

/** A device that is overridden already, by us or by another hook: only the MTU is ours. */
function editDevice(text: string, device: XmlElement, mtu: number): Edit[] {
  const frontend = firstChild(device, "qemu:frontend");
  const property = frontend?.children.find((one) => one.attributes.get("name") === "host_mtu");
  if (property !== undefined) {
    return [{ start: property.start, end: property.end, replacement: propertyXml(mtu) }];
  }
  if (mtu === DEFAULT_MTU) return [];
  if (frontend !== undefined) return [appendChild(text, frontend, propertyXml(mtu))];
  return [appendChild(text, device, frontendXml(mtu, childIndent(text, device)))];
}

function deviceXml(nic: GuestMtu, indent: string): string {
  const inner = deeper(indent);
  const alias = escapeAttribute(`ua-${nic.name}`);
  return `<qemu:device alias="${alias}">${inner}${frontendXml(nic.mtu, inner)}${indent}</qemu:device>`;
}

function frontendXml(mtu: number, indent: string): string {
  return `<qemu:frontend>${deeper(indent)}${propertyXml(mtu)}${indent}</qemu:frontend>`;
}

function propertyXml(mtu: number): string {
  return `<qemu:property name="host_mtu" type="unsigned" value="${mtu}"></qemu:property>`;
}
