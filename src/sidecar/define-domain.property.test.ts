import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { hideOpaque, withoutSidecarEdits } from "../../test/contract/sidecar-edits.ts";
import { throughKubevirtStructs } from "../../test/stand-in/virt-launcher/lossy-domain.ts";
import { defineDomain } from "./define-domain.ts";
import { parseVmi, type Vmi } from "./vmi.ts";

/** All interfaces that a generated VMI may have; those of ours begin with `v`. */
const NAMES = ["default", "v1", "tap-a", "v2", "tap-b", "v3"];

const space = fc.constantFrom("", " ", "\n", "\n  ", "\n\t\t", "\r\n\t", "  \n    ");
const quote = fc.constantFrom('"', "'");
const value = fc.string({
  unit: fc.constantFrom("a", "Z", "0", "-", " ", "&amp;", "&#x41;", "&lt;", ">", "é", "𝄞", "/", "=", "ua"),
  maxLength: 8,
});
const name = fc.constantFrom(
  "disk",
  "input",
  "qemu:arg",
  "source",
  "driver",
  "metadata",
  "a.b-c_d",
  "Domain",
);

const attributes = fc
  .uniqueArray(fc.constantFrom("type", "name", "xmlns:x", "bus", "memory"), { maxLength: 3 })
  .chain((names) =>
    fc.tuple(
      ...names.map((one) =>
        fc
          .tuple(fc.constantFrom(" ", "\n\t"), quote, value)
          .map(([gap, q, v]) => `${gap}${one}=${q}${v}${q}`),
      ),
    ),
  )
  .map((list) => list.join(""));

/** Anything that is not ours: elements, comments that look like devices, CDATA, instructions, text. */
const { foreign } = fc.letrec<{ foreign: string; element: string }>((tie) => ({
  element: fc
    .tuple(name, attributes, fc.array(tie("foreign"), { maxLength: 3 }), fc.boolean())
    .map(([tag, given, inner, short]) =>
      short ? `<${tag}${given} />` : `<${tag}${given}>${inner.join("")}</${tag}>`,
    ),
  foreign: fc.oneof(
    { maxDepth: 3 },
    space,
    fc.constantFrom(
      "<!-- </devices><interface type='vhostuser'><alias name='ua-v1'/></interface> it's -->",
      '<description><![CDATA[<devices>]] > "<memoryBacking/>]]></description>',
      "<?pi don't <interface> ?>",
      "<input/>",
    ),
    tie("element"),
  ),
}));

/** An interface as KubeVirt writes it, or as ours looks after KubeVirt's structs. */
const domainInterface = (one: string) =>
  fc.tuple(space, quote, attributes, fc.boolean()).map(([gap, q, given, hasAddress]) => {
    const alias = `<alias name=${q}${one.startsWith("placeholder") ? one : `ua-${one}`}${q}/>`;
    const address = hasAddress ? `<address type='pci' bus="0x0${one.length}"${gap}/>` : "";
    return `<interface${given.replace(/ name=/, " x=")}>${gap}${address}<source></source>${gap}${alias}</interface>`;
  });

const backing = fc.constantFrom(
  "",
  "<memoryBacking/>",
  "<memoryBacking><hugepages></hugepages><source type='memfd'/></memoryBacking>",
  "<memoryBacking>\n\t\t<hugepages><page size='1'/></hugepages>\n\t\t<allocation mode='immediate'/><!-- c -->\n\t</memoryBacking>",
  "<memoryBacking><access mode='shared'/><nosharepages/></memoryBacking>",
);
const cpu = fc.constantFrom(
  "",
  "<cpu/>",
  "<features><acpi/>\n</features>",
  "<cpu mode='host-model'><numa><cell id='0' cpus='0-3' /><cell id='1'></cell></numa></cpu>",
);

interface Generated {
  readonly xml: string;
  readonly vmi: Vmi;
}

/** Annotations of some of the interfaces; one of them may want an IOMMU. */
const settingsOf = (order: readonly string[]) =>
  fc
    .subarray(order.filter((one) => one.startsWith("v")))
    .chain((names) =>
      fc.record(
        Object.fromEntries(
          names.map((one) => [
            one,
            fc.record({ packed: fc.boolean(), iommu: fc.boolean() }, { requiredKeys: [] }),
          ]),
        ),
      ),
    );

const generated: fc.Arbitrary<Generated> = fc
  .tuple(fc.subarray(NAMES, { minLength: 1 }), fc.subarray(NAMES), fc.nat({ max: 3 }))
  .chain(([order, present, placeholders]) => {
    const there = order.filter((one) => present.includes(one));
    const all = [...there, ...[...Array(placeholders).keys()].map((index) => `placeholder-${index}`)];
    return fc
      .record({
        interfaces: fc.tuple(...all.map(domainInterface)),
        gaps: fc.array(
          fc.array(foreign, { maxLength: 3 }).map((list) => list.join("")),
          { minLength: 12, maxLength: 12 },
        ),
        backing,
        cpu,
        settings: settingsOf(order),
      })
      .map(({ interfaces, gaps, settings, ...parts }) => {
        const devices = interfaces.map((one, index) => one + (gaps[index] ?? "")).join("");
        const xml = `<domain type='kvm' xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0">${gaps[9]}${parts.backing}${gaps[10]}<devices>\n\t\t<emulator/>${devices}</devices>${gaps[11]}${parts.cpu}\n</domain>`;
        return { xml, vmi: vmiOf(order, settings) };
      });
  });

function vmiOf(order: readonly string[], settings: object = {}): Vmi {
  const interfaces = order.map((one) =>
    one.startsWith("v") ? { name: one, binding: { name: "vhostuser" } } : { name: one, bridge: {} },
  );
  const networks = order.map((one) => ({ name: one, multus: { networkName: one } }));
  const annotations = { "vhostuser/interfaces": JSON.stringify(settings) };
  const spec = { domain: { devices: { interfaces, networkInterfaceMultiqueue: true } }, networks };
  return parseVmi(JSON.stringify({ metadata: { name: "m", annotations }, spec }), "vhostuser");
}

function define(xml: string, vmi: Vmi): string {
  const socket = (index: number) => ({
    path: `/run/s${index}/vhost.sock`,
    mac: undefined,
    mtu: 1500 + index,
  });
  return defineDomain(xml, vmi, new Map(vmi.interfaces.map((one, index) => [one.name, socket(index)])));
}

const ownInterfaces = (xml: string) =>
  hideOpaque(xml).match(/<interface type="vhostuser">[\s\S]*?<\/interface>/g) ?? [];

describe("defineDomain, for any domain", () => {
  it("changes no byte that isn't ours", () => {
    fc.assert(
      fc.property(generated, ({ xml, vmi }) => {
        expect(withoutSidecarEdits(define(xml, vmi), "v")).toBe(withoutSidecarEdits(xml, "v"));
      }),
      { numRuns: 500 },
    );
  });

  it("has every interface of ours once, in the order of the VMI, before placeholders", () => {
    fc.assert(
      fc.property(generated, ({ xml, vmi }) => {
        const text = hideOpaque(define(xml, vmi));
        const found = [...text.matchAll(/<alias name=["'](ua-|)([^"']*)["']/g)].map(
          ([, , alias]) => alias ?? "",
        );
        const known = found.filter((one) => vmi.order.includes(one));
        expect(known).toEqual(vmi.order.filter((one) => one.startsWith("v") || known.includes(one)));
        const firstPlaceholder = found.findIndex((one) => one.startsWith("placeholder"));
        if (firstPlaceholder !== -1) expect(found.slice(firstPlaceholder).join()).not.toContain("v");
      }),
      { numRuns: 500 },
    );
  });

  it("changes nothing when it runs again", () => {
    fc.assert(
      fc.property(generated, ({ xml, vmi }) => {
        const once = define(xml, vmi);
        expect(define(once, vmi)).toBe(once);
      }),
      { numRuns: 500 },
    );
  });

  it("comes to rest through KubeVirt's structs, with the same interfaces", () => {
    fc.assert(
      fc.property(generated, ({ xml, vmi }) => {
        const first = define(throughKubevirtStructs(xml), vmi);
        const second = define(throughKubevirtStructs(first), vmi);
        const third = define(throughKubevirtStructs(second), vmi);
        expect(ownInterfaces(second)).toEqual(ownInterfaces(first));
        expect(third).toBe(second);
      }),
      { numRuns: 300 },
    );
  });
});
