import { Failure } from "../../failure/failure.ts";
import type { VmiInterface } from "../vmi.ts";
import { childrenNamed, type DomainDocument, firstChild, type XmlElement } from "./document.ts";
import {
  appendChild,
  childIndent,
  deeper,
  type Edit,
  escapeAttribute,
  indentOf,
  insertAfter,
  insertBefore,
} from "./edits.ts";
import { invalidDomain } from "./scan.ts";

/** An interface of the VMI as a vhost-user NIC of the domain. */
export interface VhostUserNic extends VmiInterface {
  /** The socket as QEMU, in the compute container, sees it. QEMU is the server. */
  readonly socketPath: string;
  /** Translate device addresses: for guests whose memory is encrypted, and behind a virtual IOMMU. */
  readonly iommu: boolean;
  /** Load no option ROM: a NIC that is not booted from needs none. */
  readonly noRom: boolean;
}

/** Ring size of both directions. With OVS-DPDK the vhost-user default of 256 drops bursts of small packets. */
const RING_SIZE = 1024;

/** Slots of the root bus that KubeVirt keeps for VGA, a sound card and SATA; the bridge has the first. */
const RESERVED_SLOTS: readonly number[] = [0x00, 0x01, 0x1b, 0x1f];

/**
 * The NICs, those without an address with one on the root bus: where no other device of the domain is. With all slots
 * taken libvirt puts the last ones behind a root port.
 */
export function placeOnRootComplex(
  { text, root }: DomainDocument,
  nics: readonly VhostUserNic[],
): readonly VhostUserNic[] {
  const present = interfacesByName(firstChild(root, "devices"));
  const used = new Set(RESERVED_SLOTS);
  // Also those in a comment, which does no harm.
  for (const [tag] of text.matchAll(/<address\s[^>]*>/g)) {
    if (/\sbus=["']0x0+["']/.test(tag)) used.add(Number(/\sslot=["'](\w+)["']/.exec(tag)?.[1]));
  }
  for (const { pciAddress } of nics) {
    if (pciAddress !== undefined && Number(pciAddress.bus) === 0) used.add(Number(pciAddress.slot));
  }
  const free = [...Array(32).keys()].filter((slot) => !used.has(slot)).values();
  return nics.map((nic) => {
    const isPlaced = nic.pciAddress ?? firstChild(present.get(nic.name), "address");
    const slot = isPlaced === undefined ? free.next().value : undefined;
    if (slot === undefined) return nic;
    const inHex = `0x${slot.toString(16).padStart(2, "0")}`;
    return { ...nic, pciAddress: { domain: "0x0000", bus: "0x00", slot: inHex, function: "0x0" } };
  });
}

/**
 * The edits that give the domain exactly these NICs. A NIC whose alias exists is rebuilt in place, keeping
 * its address, because KubeVirt's own structs lose half of it between two calls; else it is inserted in the
 * order of the VMI's interfaces, because libvirt gives free PCI slots in document order.
 * @param order names of all interfaces of the VMI, ours and others, in VMI order
 * @throws Failure `invalid-domain`
 */
export function editInterfaces(
  document: DomainDocument,
  nics: readonly VhostUserNic[],
  order: readonly string[],
): Edit[] {
  const { text, root } = document;
  const devices = firstChild(root, "devices");
  if (devices === undefined) throw invalidDomain("the domain has no <devices>");
  const present = interfacesByName(devices);
  const edits: Edit[] = [];
  const missing: VhostUserNic[] = [];
  for (const nic of nics) {
    const existing = present.get(nic.name);
    if (existing === undefined) missing.push(nic);
    else edits.push(rebuild(text, existing, nic));
  }
  if (missing.length > 0 && firstChild(devices, "interface") === undefined) {
    const indent = childIndent(text, devices);
    const all = missing.map((nic) => nicXml(nic, indent)).join(indent);
    return [appendChild(text, devices, all)];
  }
  // In VMI order, so that of two that land at the same place the first one comes first.
  for (const nic of missing) {
    edits.push(insert(text, devices, present, order, nic));
  }
  return edits;
}

function interfacesByName(devices: XmlElement | undefined): ReadonlyMap<string, XmlElement> {
  const found = new Map<string, XmlElement>();
  for (const element of childrenNamed(devices, "interface")) {
    const alias = firstChild(element, "alias")?.attributes.get("name");
    if (alias?.startsWith("ua-") !== true) continue;
    const name = alias.slice("ua-".length);
    if (found.has(name)) {
      throw invalidDomain(
        `two interfaces have the alias ${JSON.stringify(alias)}`,
        "<devices>",
        "look for another hook sidecar that adds the same interface",
      );
    }
    found.set(name, element);
  }
  return found;
}

function rebuild(text: string, existing: XmlElement, nic: VhostUserNic): Edit {
  const kept = firstChild(existing, "address");
  const existingMac = firstChild(existing, "mac")?.attributes.get("address");
  const xml = nicXml(
    { ...nic, mac: nic.mac ?? existingMac },
    indentOf(text, existing.start),
    nic.pciAddress === undefined && kept !== undefined ? text.slice(kept.start, kept.end) : undefined,
  );
  return { start: existing.start, end: existing.end, replacement: xml };
}

function insert(
  text: string,
  devices: XmlElement,
  present: ReadonlyMap<string, XmlElement>,
  order: readonly string[],
  nic: VhostUserNic,
): Edit {
  const at = order.indexOf(nic.name);
  const isHere = (name: string) => present.has(name);
  const before = present.get(order.slice(0, at).findLast(isHere) ?? "");
  if (before !== undefined) return insertAfter(text, before, nicXml(nic, indentOf(text, before.start)));
  // None of the VMI's interfaces comes before it: then before all interfaces, KubeVirt's placeholders included.
  const after = present.get(order.slice(at + 1).find(isHere) ?? "") ?? firstChild(devices, "interface");
  if (after === undefined) throw new Failure({ code: "internal", what: "the domain has no interface" });
  return insertBefore(text, after, nicXml(nic, indentOf(text, after.start)));
}

/** The interface element, with every line but the first on `indent`. */
function nicXml(nic: VhostUserNic, indent: string, keptAddress?: string): string {
  const { rxQueueSize, txQueueSize, packed, iommu: isBehindIommu } = nic.settings;
  const lines = [
    nic.mac === undefined ? "" : element("mac", { address: nic.mac }),
    element("source", { type: "unix", path: nic.socketPath, mode: "server" }),
    element("target", { dev: nic.podInterfaceName }),
    element("model", { type: nic.model }),
    element("driver", {
      name: "vhost",
      queues: nic.queues,
      rx_queue_size: rxQueueSize ?? RING_SIZE,
      tx_queue_size: txQueueSize ?? RING_SIZE,
      iommu: nic.iommu ? "on" : undefined,
      // Lets the device keep a cache of translations, which a virtual IOMMU invalidates.
      ats: isBehindIommu === true ? "on" : undefined,
      packed: packed === undefined ? undefined : packed ? "on" : "off",
    }),
    nic.bootOrder === undefined ? "" : element("boot", { order: nic.bootOrder }),
    nic.linkDown ? element("link", { state: "down" }) : "",
    nic.noRom ? element("rom", { enabled: "no" }) : "",
    nic.acpiIndex === undefined ? "" : element("acpi", { index: nic.acpiIndex }),
    // KubeVirt looks the interface up by this.
    element("alias", { name: `ua-${nic.name}` }),
    keptAddress ?? (nic.pciAddress && element("address", { type: "pci", ...nic.pciAddress })) ?? "",
  ].filter((line) => line !== "");
  const inner = deeper(indent);
  return `<interface type="vhostuser">${lines.map((line) => inner + line).join("")}${indent}</interface>`;
}

/** In KubeVirt's own form, `<x></x>`; attributes without a value are left out. */
function element(name: string, attributes: Readonly<Record<string, string | number | undefined>>): string {
  const given = Object.entries(attributes).filter(([, value]) => value !== undefined);
  return `<${name}${given.map(([key, value]) => ` ${key}="${escapeAttribute(String(value))}"`).join("")}></${name}>`;
}
