import { Failure } from "../../failure/failure.ts";
import type { XmlElement } from "./document.ts";

/** One change of a text: the text in [start, end) becomes `replacement`. */
export interface Edit {
  readonly start: number;
  readonly end: number;
  readonly replacement: string;
}

/** Applies edits; all bytes outside them stay. Insertions at the same place keep their order. */
export function applyEdits(text: string, edits: readonly Edit[]): string {
  const ordered = edits.toSorted((left, right) => left.start - right.start || left.end - right.end);
  const parts: string[] = [];
  let at = 0;
  for (const edit of ordered) {
    if (edit.start < at || edit.end < edit.start) {
      throw new Failure({ code: "internal", what: `two edits of the domain XML overlap at ${edit.start}` });
    }
    parts.push(text.slice(at, edit.start), edit.replacement);
    at = edit.end;
  }
  parts.push(text.slice(at));
  return parts.join("");
}

/** Inserts a sibling in front of an element, on a line of its own where the element has one. */
export function insertBefore(text: string, element: XmlElement, xml: string): Edit {
  return { start: element.start, end: element.start, replacement: xml + indentOf(text, element.start) };
}

/** Inserts a sibling behind an element, on a line of its own where the element has one. */
export function insertAfter(text: string, element: XmlElement, xml: string): Edit {
  return { start: element.end, end: element.end, replacement: indentOf(text, element.start) + xml };
}

/** Inserts a last child; `<x/>` becomes `<x>…</x>`. `xml` must be indented as {@link childIndent} says. */
export function appendChild(text: string, parent: XmlElement, xml: string): Edit {
  const outer = indentOf(text, parent.start);
  const inner = childIndent(text, parent);
  const open = startTagEnd(text, parent);
  if (text[open - 2] === "/") {
    const slash = text.slice(parent.start, open - 2).trimEnd().length + parent.start;
    return { start: slash, end: open, replacement: `>${inner}${xml}${outer}</${parent.name}>` };
  }
  const last = parent.children.at(-1);
  if (last !== undefined) {
    return { start: last.end, end: last.end, replacement: indentOf(text, last.start) + xml };
  }
  // The content of an element without listed children stays in front.
  const content = text.slice(open, text.lastIndexOf("</", parent.end - 1));
  const at = open + content.trimEnd().length;
  const isOnOneLine = content === "";
  return { start: at, end: at, replacement: `${inner}${xml}${isOnOneLine ? outer : ""}` };
}

/** Adds an attribute behind the last one of an element's start tag. */
export function addAttribute(text: string, element: XmlElement, name: string, value: string): Edit {
  const tag = text.slice(element.start, startTagEnd(text, element));
  const at = element.start + tag.slice(0, tag.endsWith("/>") ? -2 : -1).trimEnd().length;
  return { start: at, end: at, replacement: ` ${name}="${escapeAttribute(value)}"` };
}

/** Line break and white space in front of an offset, or nothing where its line has something else. */
export function indentOf(text: string, offset: number): string {
  let at = offset;
  while (at > 0 && (text[at - 1] === " " || text[at - 1] === "\t")) at--;
  if (text[at - 1] !== "\n") return "";
  return text.slice(text[at - 2] === "\r" ? at - 2 : at - 1, offset);
}

/** {@link indentOf} of an element's children: as they have it, else one step deeper than the element. */
export function childIndent(text: string, parent: XmlElement): string {
  const [first] = parent.children;
  return first === undefined ? deeper(indentOf(text, parent.start)) : indentOf(text, first.start);
}

/** One step deeper, in tabs where the indentation has tabs (KubeVirt) and two spaces else (libvirt). */
export function deeper(indent: string): string {
  if (indent === "") return "";
  return indent + (indent.endsWith(" ") ? "  " : "\t");
}

/** A value escaped for double quotes. */
export function escapeAttribute(value: string): string {
  return value
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}

/** Offset behind the `>` of the start tag; a `>` between quotes doesn't count. */
function startTagEnd(text: string, element: XmlElement): number {
  let quote = "";
  for (let at = element.start; at < element.end; at++) {
    const character = text[at] ?? "";
    if (quote !== "") {
      if (character === quote) quote = "";
    } else if (character === '"' || character === "'") {
      quote = character;
    } else if (character === ">") {
      return at + 1;
    }
  }
  throw new Failure({ code: "internal", what: `<${element.name}> has no end of its start tag` });
}
