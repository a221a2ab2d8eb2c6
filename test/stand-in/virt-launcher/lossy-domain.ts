import { child, node, parseXml, printXml, type XmlNode } from "./xml-tree.ts";

/**
 * A domain through KubeVirt's Go structs and back, which is what happens to it between two OnDefineDomain calls:
 * of interfaces, memory backing and NUMA cells exactly the fields of the structs survive, and of QEMU's namespace
 * nothing. Other parts of the domain are reprinted in Go's form and lose only comments.
 * @param keepsCommandline main reads QEMU's command line by other means
 */
export function lossyDomain(domain: XmlNode, keepsCommandline = false): XmlNode {
  const commandline = keepsCommandline ? child(domain, "qemu:commandline") : undefined;
  const { "xmlns:qemu": qemu, ...attributes } = domain.attributes;
  const parts = domain.children.filter((part) => part === commandline || !part.name.includes(":"));
  return {
    ...domain,
    attributes: commandline === undefined || qemu === undefined ? attributes : domain.attributes,
    children: parts.map((part) => {
      if (part.name === "memoryBacking") return lossyBacking(part);
      if (part.name === "cpu") return lossyCpu(part);
      if (part.name !== "devices") return part;
      const children = part.children.map((one) => (one.name === "interface" ? lossyInterface(one) : one));
      return { ...part, children };
    }),
  };
}

/** {@link lossyDomain} of a text. */
export function throughKubevirtStructs(xml: string): string {
  return printXml(lossyDomain(parseXml(xml)));
}

/** Fields of one struct: attributes, children by name, and fields that are written even when empty. */
interface Struct {
  readonly attributes?: readonly string[];
  readonly children?: Readonly<Record<string, Struct>>;
  readonly always?: readonly string[];
  readonly alwaysAttributes?: readonly string[];
  readonly text?: true;
}

const ADDRESS: Struct = {
  attributes: [
    "type",
    "domain",
    "bus",
    "slot",
    "function",
    "controller",
    "target",
    "unit",
    "uuid",
    "cssid",
    "ssid",
    "devno",
  ],
};

const INTERFACE: Struct = {
  attributes: ["type", "trustGuestRxFilters"],
  always: ["source"],
  children: {
    address: ADDRESS,
    source: { attributes: ["network", "dev", "bridge", "mode"], children: { address: ADDRESS } },
    target: { attributes: ["dev", "managed"] },
    model: { attributes: ["type"] },
    mac: { attributes: ["address"] },
    mtu: { attributes: ["size"] },
    boot: { attributes: ["order"] },
    link: { attributes: ["state"] },
    filterref: { attributes: ["filter"] },
    alias: { attributes: ["name"] },
    driver: { attributes: ["name", "queues", "iommu"] },
    rom: { attributes: ["enabled"] },
    acpi: { attributes: ["index"] },
    backend: { attributes: ["type", "logFile"] },
    portForward: { attributes: ["proto", "address", "dev"] },
  },
};

const BACKING: Struct = {
  children: {
    hugepages: {
      children: { page: { attributes: ["size", "unit", "nodeset"], alwaysAttributes: ["nodeset"] } },
    },
    source: { attributes: ["type"] },
    access: { attributes: ["mode"] },
    allocation: { attributes: ["mode"] },
    nosharepages: {},
  },
};

const CELL: Struct = {
  attributes: ["id", "cpus", "memory", "unit", "memAccess"],
  children: { distances: { children: { sibling: { attributes: ["id", "value"] } } } },
};

const lossyInterface = (part: XmlNode) => lossy(part, INTERFACE);
const lossyBacking = (part: XmlNode) => lossy(part, BACKING);

function lossyCpu(cpu: XmlNode): XmlNode {
  const numa = child(cpu, "numa");
  if (numa === undefined) return cpu;
  const cells = numa.children.filter((one) => one.name === "cell").map((one) => lossy(one, CELL));
  return { ...cpu, children: cpu.children.map((one) => (one === numa ? node("numa", {}, cells) : one)) };
}

/** What of a node fits the struct, in the struct's order. */
function lossy(part: XmlNode, struct: Struct): XmlNode {
  const attributes: Record<string, string> = {};
  for (const name of struct.attributes ?? []) {
    const value = part.attributes[name];
    if (value !== undefined && value !== "") attributes[name] = value;
    else if (struct.alwaysAttributes?.includes(name)) attributes[name] = "";
  }
  const children: XmlNode[] = [];
  for (const [name, inner] of Object.entries(struct.children ?? {})) {
    const found = part.children.filter((one) => one.name === name);
    if (found.length === 0 && struct.always?.includes(name)) found.push(node(name));
    children.push(...found.map((one) => lossy(one, inner)));
  }
  return node(part.name, attributes, children);
}
