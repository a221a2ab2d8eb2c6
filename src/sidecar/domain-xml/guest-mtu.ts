import { childrenNamed, type DomainDocument, firstChild, type XmlElement } from "./document.ts";
import { appendChild, childIndent, deeper, type Edit, escapeAttribute } from "./edits.ts";

/** A NIC by its name in the VMI, and the MTU for the guest; undefined where nothing says one. */
interface GuestMtu {
  readonly name: string;
  readonly mtu: number | undefined;
}

/** The MTU of a guest to which QEMU offers none. */
const DEFAULT_MTU = 1500;
const QEMU_NAMESPACE = "http://libvirt.org/schemas/domain/qemu/1.0";

/**
 * The edits that make QEMU advertise each NIC's MTU to the guest. libvirt's own `<mtu>` cannot be used: for a vhostuser
 * interface libvirt (11.3) also sets it on a network device of the pod, which doesn't exist, and refuses to start
 * the domain. So the property of QEMU's device is set by `<qemu:override>`, and not at all where it is
 * what a guest has anyway.
 */
export function editGuestMtu(document: DomainDocument, nics: readonly GuestMtu[]): Edit[] {
  const { text, root } = document;
  const override = findOverride(root);
  // KubeVirt's plugins print QEMU's elements with the namespace instead of the prefix.
  const prefix = override?.name.replace(/override$/, "") ?? "qemu:";
  const missing: string[] = [];
  const edits: Edit[] = [];
  const indent = override === undefined ? deeper(childIndent(text, root)) : childIndent(text, override);
  for (const { name, mtu } of nics) {
    if (mtu === undefined) continue;
    const device = childrenNamed(override, `${prefix}device`).find(
      (one) => one.attributes.get("alias") === `ua-${name}`,
    );
    if (device !== undefined) edits.push(...editDevice(text, device, mtu, prefix));
    else if (mtu !== DEFAULT_MTU) missing.push(deviceXml(name, mtu, indent, prefix));
  }
  if (missing.length === 0) return edits;
  const devices = missing.join(indent);
  if (override !== undefined) return [...edits, appendChild(text, override, devices)];
  const declared =
    root.attributes.get("xmlns:qemu") === QEMU_NAMESPACE ? "" : ` xmlns:qemu="${QEMU_NAMESPACE}"`;
  const xml = `<qemu:override${declared}>${indent}${devices}${childIndent(text, root)}</qemu:override>`;
  return [...edits, appendChild(text, root, xml)];
}

function findOverride(root: XmlElement): XmlElement | undefined {
  const byNamespace = (one: XmlElement) =>
    one.name === "override" && one.attributes.get("xmlns") === QEMU_NAMESPACE;
  return firstChild(root, "qemu:override") ?? root.children.find(byNamespace);
}

/** A device that is overridden already, by us or by another hook: only the MTU is ours. */
function editDevice(text: string, device: XmlElement, mtu: number, prefix: string): Edit[] {
  const frontend = firstChild(device, `${prefix}frontend`);
  const property = frontend?.children.find((one) => one.attributes.get("name") === "host_mtu");
  if (property !== undefined) {
    return [{ start: property.start, end: property.end, replacement: propertyXml(mtu, prefix) }];
  }
  if (mtu === DEFAULT_MTU) return [];
  if (frontend !== undefined) return [appendChild(text, frontend, propertyXml(mtu, prefix))];
  return [appendChild(text, device, frontendXml(mtu, childIndent(text, device), prefix))];
}

function deviceXml(name: string, mtu: number, indent: string, prefix: string): string {
  const inner = deeper(indent);
  const alias = escapeAttribute(`ua-${name}`);
  const frontend = frontendXml(mtu, inner, prefix);
  return `<${prefix}device alias="${alias}">${inner}${frontend}${indent}</${prefix}device>`;
}

function frontendXml(mtu: number, indent: string, prefix: string): string {
  return `<${prefix}frontend>${deeper(indent)}${propertyXml(mtu, prefix)}${indent}</${prefix}frontend>`;
}

function propertyXml(mtu: number, prefix: string): string {
  return `<${prefix}property name="host_mtu" type="unsigned" value="${mtu}"></${prefix}property>`;
}
