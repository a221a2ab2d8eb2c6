import { Failure } from "../../failure/failure.ts";

/**
 * What a document may have. The parser takes some hundred bytes for each element and attribute and several for each
 * character of a text, and the sidecar has 64 MB. A domain with a hundred disks has 100 KB and 2 000 elements; one
 * with 64 NUMA nodes has 4 096 distances.
 */
const MOST_CHARACTERS = 1_000_000;
const MOST_ELEMENTS = 15_000;
const MOST_ATTRIBUTES = 40_000;
/** Characters in a tag, or between two tags, comments included: the parser collects them one by one. */
const LONGEST_TEXT = 100_000;

/** Comments, CDATA and processing instructions: they never hold an element, whatever they look like. */
const OPAQUE: readonly (readonly [open: string, close: string, name: string])[] = [
  ["<!--", "-->", "comment"],
  ["<![CDATA[", "]]>", "CDATA section"],
  ["<?", "?>", "processing instruction"],
];

/**
 * The text with everything opaque blanked in place, so that every offset and line stays right. One pass, and it
 * refuses what would take the parser too much memory.
 * @throws Failure `invalid-domain`
 */
export function blankOpaque(text: string): string {
  if (text.length > MOST_CHARACTERS) throw tooMuch(`${MOST_CHARACTERS} characters`);
  const parts: string[] = [];
  let done = 0;
  let tags = 0;
  let attributes = 0;
  let textStart = 0;
  for (let at = text.indexOf("<"); at !== -1; at = text.indexOf("<", at)) {
    // An element has two tags, unless it is empty.
    if (++tags > MOST_ELEMENTS * 2) throw tooMuch(`${MOST_ELEMENTS} elements`);
    const opaque = OPAQUE.find(([open]) => text.startsWith(open, at));
    if (opaque !== undefined) {
      const end = endOfOpaque(text, at, opaque);
      parts.push(text.slice(done, at), text.slice(at, end).replace(/[^\r\n]/g, " "));
      done = end;
      at = end;
    } else if (text[at + 1] === "!") {
      throw malformed("it has a DOCTYPE, which a libvirt domain never has");
    } else {
      if (at - textStart > LONGEST_TEXT) throw tooMuch(`${LONGEST_TEXT} characters between two tags`);
      const tag = scanTag(text, at);
      if (tag.end - at > LONGEST_TEXT) throw tooMuch(`${LONGEST_TEXT} characters in a tag`);
      attributes += tag.attributes;
      if (attributes > MOST_ATTRIBUTES) throw tooMuch(`${MOST_ATTRIBUTES} attributes`);
      at = tag.end;
      textStart = tag.end;
    }
  }
  if (text.length - textStart > LONGEST_TEXT) throw tooMuch(`${LONGEST_TEXT} characters behind its end`);
  return done === 0 ? text : parts.join("") + text.slice(done);
}

function endOfOpaque(text: string, at: number, [open, close, name]: (typeof OPAQUE)[number]): number {
  const end = text.indexOf(close, at + open.length);
  if (end === -1) throw malformed(`it has an open ${name}`);
  return end + close.length;
}

/** Where a tag ends, and how many attributes it has at most; a `>` between quotes doesn't end it. */
function scanTag(text: string, start: number): { readonly end: number; readonly attributes: number } {
  let attributes = 0;
  for (let at = start + 1; at < text.length; at++) {
    const character = text[at];
    if (character === ">") return { end: at + 1, attributes };
    if (character === "=") attributes++;
    if (character !== '"' && character !== "'") continue;
    const close = text.indexOf(character, at + 1);
    if (close === -1) throw malformed(`it has an open quote at offset ${at}`);
    at = close;
  }
  throw malformed(`it has an open tag at offset ${start}`);
}

function tooMuch(what: string): Failure {
  return invalidDomain(`the domain XML has more than ${what}`);
}

/** @returns what is thrown where a domain is no well-formed XML */
export function malformed(what: string, place?: string): Failure {
  return invalidDomain(`the domain XML is malformed: ${what}`, place);
}

/** @returns what is thrown for a domain that cannot be read, or not be changed */
export function invalidDomain(
  what: string,
  place?: string,
  fix = "check what KubeVirt or a hook sidecar before this one wrote",
): Failure {
  const where = place === undefined ? "OnDefineDomain" : `OnDefineDomain, ${place}`;
  return new Failure({ code: "invalid-domain", what, where, fix });
}
