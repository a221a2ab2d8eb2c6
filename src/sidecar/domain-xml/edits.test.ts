import { describe, expect, it } from "vitest";
import { firstChild, parseDomain } from "./document.ts";
import { addAttribute, appendChild, applyEdits, insertAfter, insertBefore } from "./edits.ts";

function inDomain(
  xml: string,
  edit: (text: string, part: ReturnType<typeof partOf>) => ReturnType<typeof appendChild>,
) {
  const text = `<domain>${xml}</domain>`;
  return applyEdits(text, [edit(text, partOf(text))]).slice("<domain>".length, -"</domain>".length);
}

function partOf(text: string) {
  const [part] = parseDomain(text).root.children;
  if (part === undefined) throw new Error("no part");
  return part;
}

describe("edits", () => {
  it("applies several at once and keeps the order of insertions at one place", () => {
    const edits = [
      { start: 3, end: 4, replacement: "D" },
      { start: 1, end: 1, replacement: "x" },
      { start: 1, end: 1, replacement: "y" },
      { start: 0, end: 1, replacement: "A" },
    ];
    expect(applyEdits("abcde", edits)).toBe("AxybcDe");
  });

  it("refuses edits that overlap", () => {
    const edits = [
      { start: 0, end: 2, replacement: "" },
      { start: 1, end: 3, replacement: "" },
    ];
    expect(() => applyEdits("abcde", edits)).toThrow(expect.objectContaining({ code: "internal" }));
  });

  it.each([
    ["into <a/>", "<a/>", "<a><x/></a>"],
    ["into <a k='>' />", "<a k='>' />", "<a k='>'><x/></a>"],
    ["into <a></a>", "<a></a>", "<a><x/></a>"],
    ["into an empty element on lines", "\n\t<a>\n\t</a>\n", "\n\t<a>\n\t\t<x/>\n\t</a>\n"],
    ["into an empty element on one line", "\n  <a></a>\n", "\n  <a>\n    <x/>\n  </a>\n"],
    [
      "behind the last child",
      "\r\n\t<a>\r\n\t\t<b/>\r\n\t</a>",
      "\r\n\t<a>\r\n\t\t<b/>\r\n\t\t<x/>\r\n\t</a>",
    ],
    ["behind a comment", "<a><!-- c --></a>", "<a><!-- c --><x/></a>"],
  ])("appends a child %s", (_name, before, after) => {
    expect(inDomain(before, (text, part) => appendChild(text, part, "<x/>"))).toBe(after);
  });

  it("inserts siblings on lines of their own only where the element has one", () => {
    expect(inDomain("\n\t<a/>\n", (text, part) => insertAfter(text, part, "<x/>"))).toBe(
      "\n\t<a/>\n\t<x/>\n",
    );
    expect(inDomain("\n\t<a/>\n", (text, part) => insertBefore(text, part, "<x/>"))).toBe(
      "\n\t<x/>\n\t<a/>\n",
    );
    expect(inDomain(" <a/> ", (text, part) => insertBefore(text, part, "<x/>"))).toBe(" <x/><a/> ");
  });

  it.each([
    ["<cell id='0'/>", "<cell id='0' m=\"&lt;&amp;&quot;\"/>"],
    ["<cell id='0' />", "<cell id='0' m=\"&lt;&amp;&quot;\" />"],
    ["<cell a='/>'\n></cell>", "<cell a='/>' m=\"&lt;&amp;&quot;\"\n></cell>"],
    ["<cell></cell>", '<cell m="&lt;&amp;&quot;"></cell>'],
  ])("adds an attribute to %s", (before, after) => {
    expect(inDomain(before, (text, part) => addAttribute(text, part, "m", '<&"'))).toBe(after);
    expect(firstChild(parseDomain(`<domain>${after}</domain>`).root, "cell")?.attributes.get("m")).toBe(
      '<&"',
    );
  });
});
