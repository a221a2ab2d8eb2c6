import { XMLParser } from "fast-xml-parser";

/** An element as Go's encoding/xml sees it: no comments, no processing instructions, text without its entities. */
export interface XmlNode {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly children: readonly XmlNode[];
  /** Text of an element without children. */
  readonly text?: string;
}

/** Builds a node; attributes that are undefined are left out, as Go's omitempty does. */
export function node(
  name: string,
  attributes: Readonly<Record<string, string | number | undefined>> = {},
  children: readonly (XmlNode | undefined)[] | string = [],
): XmlNode {
  const given = Object.entries(attributes).filter(([, value]) => value !== undefined);
  return {
    name,
    attributes: Object.fromEntries(given.map(([key, value]) => [key, String(value)])),
    children: typeof children === "string" ? [] : children.filter((child) => child !== undefined),
    ...(typeof children === "string" ? { text: children } : {}),
  };
}

/** The first child of that name. */
export function child(parent: XmlNode | undefined, name: string): XmlNode | undefined {
  return parent?.children.find((one) => one.name === name);
}

/** The parent with the first child of that name replaced, or with it added at the end. */
export function withChild(parent: XmlNode, replacement: XmlNode): XmlNode {
  const at = parent.children.findIndex((one) => one.name === replacement.name);
  if (at === -1) return { ...parent, children: [...parent.children, replacement] };
  return { ...parent, children: parent.children.with(at, replacement) };
}

/** Parses a document. */
export function parseXml(text: string): XmlNode {
  const parser = new XMLParser({
    preserveOrder: true,
    ignoreAttributes: false,
    attributeNamePrefix: "",
    parseTagValue: false,
    parseAttributeValue: false,
    htmlEntities: true,
  });
  // Gone in Go's structs anyway; the parser trips over an apostrophe in an instruction.
  const plain = text.replace(/(<!\[CDATA\[[\s\S]*?\]\]>)|<!--[\s\S]*?-->|<\?[\s\S]*?\?>/g, "$1");
  const [root] = toNodes(parser.parse(plain, true));
  if (root === undefined) throw new Error("the document has no root element");
  return root;
}

function toNodes(list: Record<string, unknown>[]): XmlNode[] {
  const nodes: XmlNode[] = [];
  for (const item of list) {
    const name = Object.keys(item).find((key) => key !== ":@");
    if (name === undefined || name === "#text") continue;
    const inner = item[name] as Record<string, unknown>[];
    const text = inner.map((one) => one["#text"] ?? "").join("");
    const children = toNodes(inner);
    nodes.push({
      name,
      attributes: (item[":@"] ?? {}) as Record<string, string>,
      children,
      ...(children.length === 0 && text !== "" ? { text } : {}),
    });
  }
  return nodes;
}

/** Prints as Go's `xml.MarshalIndent(value, "", "\t")` does: tabs, double quotes, never `<x/>`. */
export function printXml(root: XmlNode, depth = 0): string {
  const indent = "\t".repeat(depth);
  const attributes = Object.entries(root.attributes).map(([key, value]) => ` ${key}="${escapeGo(value)}"`);
  const open = `${indent}<${root.name}${attributes.join("")}>`;
  if (root.children.length === 0) return `${open}${escapeGo(root.text ?? "")}</${root.name}>`;
  const inner = root.children.map((one) => printXml(one, depth + 1));
  return `${open}\n${inner.join("\n")}\n${indent}</${root.name}>`;
}

const GO_ESCAPES: Readonly<Record<string, string>> = {
  '"': "&#34;",
  "'": "&#39;",
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  "\t": "&#x9;",
  "\n": "&#xA;",
  "\r": "&#xD;",
};

function escapeGo(text: string): string {
  return text.replace(/["'&<>\t\n\r]/g, (character) => GO_ESCAPES[character] ?? character);
}
