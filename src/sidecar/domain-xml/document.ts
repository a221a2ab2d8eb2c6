import { XMLParser, XMLValidator } from "fast-xml-parser";
import { describeThrown, Failure } from "../../failure/failure.ts";
import { blankOpaque, malformed } from "./scan.ts";

/** An element of a domain, with its position in the text. Offsets are in UTF-16 units of the text. */
export interface XmlElement {
  readonly name: string;
  /** Offset of its `<`. */
  readonly start: number;
  /** Offset behind its last `>`. */
  readonly end: number;
  /** Attribute values with entities resolved. */
  readonly attributes: ReadonlyMap<string, string>;
  /** Child elements in document order, if they are read; text, comments and CDATA are not listed. */
  readonly children: readonly XmlElement[];
}

/** A parsed domain: the text as it came, and the elements that the sidecar looks into. */
export interface DomainDocument {
  readonly text: string;
  readonly root: XmlElement;
}

/**
 * Sub-trees of `<domain>` that are read whole. Its other children are listed with their place, and what is in
 * them is dropped while parsing: a tree of a domain of a few MiB takes more memory than the 64 MB that KubeVirt gives
 * a hook sidecar.
 */
const READ_WHOLE: readonly (readonly [string, string?])[] = [
  ["memoryBacking"],
  ["cpu"],
  ["features"],
  ["devices", "interface"],
  ["devices", "iommu"],
  ["devices", "memory"],
  ["qemu:override"],
  ["override"],
];

const METADATA = XMLParser.getMetaDataSymbol() as symbol;

/**
 * Parses a libvirt domain.
 * @throws Failure `invalid-domain`
 */
export function parseDomain(text: string): DomainDocument {
  const plain = blankOpaque(text);
  const verdict = XMLValidator.validate(plain);
  if (verdict !== true) {
    throw malformed(`${verdict.err.msg}`, `line ${verdict.err.line}, column ${verdict.err.col}`);
  }
  const roots = childElements(parseTree(plain), text);
  const [root] = roots;
  if (roots.length !== 1 || root === undefined || root.name !== "domain") {
    const found = roots.map((element) => `<${element.name}>`).join(", ");
    throw malformed(`its root is ${found === "" ? "missing" : found}, not <domain>`);
  }
  return { text, root };
}

/** The first child of that name. */
export function firstChild(element: XmlElement | undefined, name: string): XmlElement | undefined {
  return element?.children.find((child) => child.name === name);
}

/** All children of that name. */
export function childrenNamed(element: XmlElement | undefined, name: string): readonly XmlElement[] {
  return element?.children.filter((child) => child.name === name) ?? [];
}

function parseTree(plain: string): unknown {
  const parser = new XMLParser({
    preserveOrder: true,
    captureMetaData: true,
    ignoreAttributes: false,
    attributeNamePrefix: "",
    processEntities: false,
    parseTagValue: false,
    parseAttributeValue: false,
    trimValues: false,
    tagValueProcessor: () => "",
    ignoreDeclaration: true,
    maxNestedTags: 200,
    jPath: false,
    updateTag: (_name, path) => typeof path === "string" || isRead(path.toArray()),
  });
  try {
    return parser.parse(plain);
  } catch (error) {
    throw malformed(describeThrown(error));
  }
}

function isRead([, outer, inner]: readonly string[]): boolean {
  if (inner === undefined) return true;
  return READ_WHOLE.some(([wanted, below]) => wanted === outer && (below === undefined || below === inner));
}

/** The parser's ordered node list as elements; each one's place is checked against the text. */
function childElements(nodes: unknown, text: string): XmlElement[] {
  if (!Array.isArray(nodes)) return [];
  const elements: XmlElement[] = [];
  for (const node of nodes as Record<string | symbol, unknown>[]) {
    const name = Object.keys(node).find((key) => key !== ":@" && key !== "#text");
    if (name === undefined) continue;
    const place = node[METADATA] as { startIndex?: number; endIndex?: number } | undefined;
    const start = place?.startIndex ?? -1;
    const end = place?.endIndex ?? -1;
    if (!text.startsWith(`<${name}`, start) || text[end - 1] !== ">") {
      throw new Failure({
        code: "internal",
        what: `the XML parser lost the place of <${name}>`,
        where: `domain XML, offsets ${start} to ${end}`,
        fix: "report it with the VM's domain XML",
      });
    }
    const attributes = new Map<string, string>();
    for (const [key, value] of Object.entries((node[":@"] ?? {}) as Record<string, unknown>)) {
      attributes.set(key, decodeEntities(String(value)));
    }
    elements.push({ name, start, end, attributes, children: childElements(node[name], text) });
  }
  return elements;
}

const NAMED: Readonly<Record<string, string>> = { lt: "<", gt: ">", amp: "&", quot: '"', apos: "'" };

function decodeEntities(raw: string): string {
  return raw.replace(/&(?:#(\d+)|#x([0-9a-fA-F]+)|(\w+));/g, (whole, decimal, hex, name) => {
    if (name !== undefined) return NAMED[name as string] ?? whole;
    const code = Number.parseInt(decimal ?? hex, decimal === undefined ? 16 : 10);
    return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}
