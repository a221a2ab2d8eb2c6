import { describe, expect, it } from "vitest";
import { childrenNamed, firstChild, parseDomain, type XmlElement } from "./document.ts";

const textOf = (text: string, element: XmlElement | undefined) =>
  element === undefined ? undefined : text.slice(element.start, element.end);

const attributes = (count: number) => [...Array(count).keys()].map((index) => `a${index}=''`).join(" ");

describe("parseDomain", () => {
  it("gives the position of every element, whatever quotes, white space and line ends it has", () => {
    const text =
      "\ufeff<?xml version='1.0'?>\r\n<domain type = 'kvm'\r\n>\r\n <devices>\r\n" +
      "  <interface type='a>b' ><alias\tname\n=\n'ua-x'/></interface >\r\n  <disk/></devices>\r\n</domain>\n";
    const { root } = parseDomain(text);
    const devices = firstChild(root, "devices");
    expect(textOf(text, firstChild(devices, "interface"))).toBe(
      "<interface type='a>b' ><alias\tname\n=\n'ua-x'/></interface >",
    );
    expect(textOf(text, devices)).toMatch(/^<devices>[\s\S]*<disk\/><\/devices>$/);
    expect(firstChild(firstChild(devices, "interface"), "alias")?.attributes.get("name")).toBe("ua-x");
  });

  it("sees no element in a comment, in CDATA or in a processing instruction", () => {
    const text =
      "<domain><!-- <devices><interface/></devices> it's --><?hint don't <devices> ?>" +
      '<description><![CDATA[<devices/> " ]]></description><devices><disk/></devices></domain>';
    const { root } = parseDomain(text);
    expect(root.children.map((child) => child.name)).toEqual(["description", "devices"]);
    expect(textOf(text, firstChild(root, "devices"))).toBe("<devices><disk/></devices>");
  });

  it("names the line of an error behind a comment of several lines", () => {
    expect(() => parseDomain("<domain><!--\n\n-->\n<devices></domain>")).toThrow(/line 4/);
  });

  it("accepts many blanks in a tag", () => {
    const text = `<domain><devices><interface${" ".repeat(90_000)}/></devices></domain>`;
    expect(textOf(text, firstChild(parseDomain(text).root, "devices"))).toHaveLength(text.length - 17);
  });

  it("resolves entities in attribute values", () => {
    const text =
      "<domain><devices><interface><alias name='ua-a&amp;&#98;&#x63;&quot;'/></interface></devices></domain>";
    const alias = firstChild(firstChild(firstChild(parseDomain(text).root, "devices"), "interface"), "alias");
    expect(alias?.attributes.get("name")).toBe('ua-a&bc"');
  });

  it("reads interfaces, memory backing, CPU and overrides, and no other elements", () => {
    const text =
      "<domain xmlns:qemu='q'><os><type/></os><memoryBacking><a><b/></a></memoryBacking><cpu><numa><cell/></numa></cpu>" +
      "<devices><interface><a><b/></a></interface><disk><source><deep/></source></disk></devices>" +
      "<qemu:override><qemu:device><qemu:frontend/></qemu:device></qemu:override></domain>";
    const { root } = parseDomain(text);
    const names = (element: XmlElement): unknown[] =>
      element.children.map((child) => [child.name, ...names(child)]);
    expect(names(root)).toEqual([
      ["os"],
      ["memoryBacking", ["a", ["b"]]],
      ["cpu", ["numa", ["cell"]]],
      ["devices", ["interface", ["a", ["b"]]]],
      ["qemu:override", ["qemu:device", ["qemu:frontend"]]],
    ]);
    expect(childrenNamed(root, "devices")).toHaveLength(1);
  });

  it.each([
    ["nothing", "", "Start tag expected"],
    ["an end without its start", "<domain></devices></domain>", "devices"],
    ["a start without its end", "<domain><devices></domain>", "line 1"],
    ["an attribute twice", "<domain a='1' a='2'/>", "repeated"],
    ["an open quote", "<domain a='1></domain>", "quote"],
    ["two roots", "<domain></domain><domain></domain>", "root"],
    ["another root", "<network/>", "<network>"],
    ["a DOCTYPE", "<!DOCTYPE domain [<!ENTITY a 'b'>]><domain/>", "DOCTYPE"],
    ["an open comment", "<domain/><!-- ", "comment"],
    ["an open instruction", "<domain/><?x ", "processing instruction"],
    ["an open CDATA section", "<domain><![CDATA[ </domain>", "CDATA"],
    ["an open tag", "<domain", "open tag"],
    ["entities that multiply", `<!DOCTYPE d [<!ENTITY a "&b;&b;">]><domain>&a;</domain>`, "DOCTYPE"],
    ["a document too deep", `<domain>${"<a>".repeat(500)}${"</a>".repeat(500)}</domain>`, "nested"],
    ["too many elements", `<domain>${"<a/>".repeat(40_000)}</domain>`, "15000 elements"],
    ["too many attributes", `<domain>${`<a ${attributes(5_000)}/>`.repeat(10)}</domain>`, "40000 attributes"],
    ["too many comments", `<domain>${"<!---->".repeat(40_000)}</domain>`, "15000 elements"],
    ["a long text", `<domain>${"x".repeat(200_000)}</domain>`, "between two tags"],
    ["a long comment", `<domain><!--${"x".repeat(200_000)}--></domain>`, "between two tags"],
    ["a long end", `<domain/>${" ".repeat(200_000)}`, "behind its end"],
    ["a tag full of blanks", `<domain ${" ".repeat(900_000)}/>`, "100000 characters in a tag"],
    ["a long attribute", `<domain a="${"x".repeat(900_000)}"/>`, "100000 characters in a tag"],
    ["more than a megabyte", `<domain a="${"x".repeat(1_000_000)}"/>`, "1000000 characters"],
    ["many open comments", `<domain/>${"<!--".repeat(200_000)}`, "comment"],
    ["many open quotes", `<domain ${"a='".repeat(300_000)}`, "open"],
  ])("refuses %s", (_name, text, words) => {
    expect(() => parseDomain(text)).toThrow(
      expect.objectContaining({ code: "invalid-domain", message: expect.stringContaining(words) }),
    );
  });
});
