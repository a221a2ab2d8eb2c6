import { describe, expect, it } from "vitest";
import { defineDomain } from "./define-domain.ts";
import type { NicSocket } from "./find-sockets.ts";
import type { Vmi, VmiInterface } from "./vmi.ts";

const PATH = "/var/run/vhostuser/sockets/podblue/vhost.sock";
const BACKING =
  '<memoryBacking><source type="memfd"></source><access mode="shared"></access></memoryBacking>';

function nic(name: string, extra: Partial<VmiInterface> = {}): VmiInterface {
  return {
    name,
    podInterfaceName: `pod${name}`,
    model: "virtio-non-transitional",
    mac: undefined,
    bootOrder: undefined,
    acpiIndex: undefined,
    pciAddress: undefined,
    linkDown: false,
    claim: undefined,
    queues: undefined,
    settings: {},
    ...extra,
  };
}

function vmi(interfaces: readonly VmiInterface[], extra: Partial<Vmi> = {}): Vmi {
  const order = interfaces.map((one) => one.name);
  const rest = {
    name: "tests/router",
    iommu: undefined,
    launchSecurity: false,
    onRootComplex: false,
    romTuning: true,
    migrating: false,
    unplugging: false,
  };
  return { ...rest, order, interfaces, ...extra };
}

const socket = (extra: Partial<NicSocket> = {}): NicSocket => ({
  path: PATH,
  mac: undefined,
  mtu: undefined,
  ...extra,
});

function define(xml: string, guest: Vmi, found: Partial<NicSocket> = {}): string {
  const sockets = new Map(guest.interfaces.map((one) => [one.name, socket(found)]));
  const answer = defineDomain(xml, guest, sockets);
  expect(defineDomain(answer, guest, sockets), "a second pass").toBe(answer);
  return answer;
}

/** The one interface of ours, line by line. */
function interfaceLines(xml: string): string[] {
  const [match] = /<interface type="vhostuser">[\s\S]*?<\/interface>/.exec(xml) ?? [];
  return (match ?? "none").split("\n").map((line) => line.trim());
}

const EMPTY = `<domain>${BACKING}\n<devices>\n</devices></domain>`;

describe("the interface", () => {
  it("has everything that VMI and network-info say", () => {
    const one = nic("blue", {
      mac: "02:00:00:00:00:01",
      bootOrder: 1,
      acpiIndex: 7,
      linkDown: true,
      pciAddress: { domain: "0x0000", bus: "0x81", slot: "0x01", function: "0x0" },
      queues: 4,
    });
    const guest = vmi([one], { launchSecurity: true });
    expect(interfaceLines(define(EMPTY, guest, { mac: "02:00:00:00:00:02", mtu: 9000 }))).toEqual([
      '<interface type="vhostuser">',
      '<mac address="02:00:00:00:00:01"></mac>',
      `<source type="unix" path="${PATH}" mode="server"></source>`,
      '<target dev="podblue"></target>',
      '<model type="virtio-non-transitional"></model>',
      '<driver name="vhost" queues="4" rx_queue_size="1024" tx_queue_size="1024" iommu="on"></driver>',
      '<boot order="1"></boot>',
      '<link state="down"></link>',
      '<acpi index="7"></acpi>',
      '<alias name="ua-blue"></alias>',
      '<address type="pci" domain="0x0000" bus="0x81" slot="0x01" function="0x0"></address>',
      "</interface>",
    ]);
  });

  it("has no more than it needs", () => {
    expect(interfaceLines(define(EMPTY, vmi([nic("blue")])))).toEqual([
      '<interface type="vhostuser">',
      `<source type="unix" path="${PATH}" mode="server"></source>`,
      '<target dev="podblue"></target>',
      '<model type="virtio-non-transitional"></model>',
      '<driver name="vhost" rx_queue_size="1024" tx_queue_size="1024"></driver>',
      '<rom enabled="no"></rom>',
      '<alias name="ua-blue"></alias>',
      "</interface>",
    ]);
  });

  it("takes the MAC of network-info where the VMI has none, and no ROM rule where KubeVirt has none", () => {
    const lines = interfaceLines(
      define(EMPTY, vmi([nic("blue")], { romTuning: false }), { mac: "02:00:00:00:00:02" }),
    );
    expect(lines).toContain('<mac address="02:00:00:00:00:02"></mac>');
    expect(lines.join()).not.toContain("rom");
  });

  it("has what the annotation asks for", () => {
    const one = nic("blue", {
      queues: 2,
      settings: { rxQueueSize: 256, txQueueSize: 512, packed: true },
    });
    expect(interfaceLines(define(EMPTY, vmi([one])))).toContain(
      '<driver name="vhost" queues="2" rx_queue_size="256" tx_queue_size="512" packed="on"></driver>',
    );
    const off = nic("blue", { settings: { packed: false } });
    expect(interfaceLines(define(EMPTY, vmi([off]))).join()).toContain('packed="off"');
  });

  it("is there for each of several, also in <devices/>", () => {
    const answer = define("<domain><devices/></domain>", vmi([nic("blue"), nic("red")]));
    expect([...answer.matchAll(/ua-(\w+)/g)].map(([, name]) => name)).toEqual(["blue", "red"]);
  });

  it("escapes what it writes", () => {
    const answer = define(EMPTY, vmi([nic("blue")]), { path: `/run/a&b"<c>/vhost.sock` });
    expect(answer).toContain('path="/run/a&amp;b&quot;&lt;c&gt;/vhost.sock"');
  });
});

describe("an interface that is there already", () => {
  const stripped =
    "<interface type='vhostuser' trustGuestRxFilters='no'><address type='pci' bus='0x05'/><source></source>" +
    "<mac address='02:00:00:00:00:09'/><alias name='ua-blue'/><driver name='vhost'/></interface>";

  it("is rebuilt in place, and keeps its address byte for byte", () => {
    const xml = `<domain>${BACKING}<devices><disk/>${stripped}<interface><alias name="x"/></interface></devices></domain>`;
    const answer = define(xml, vmi([nic("blue")]));
    expect(answer).toContain("<address type='pci' bus='0x05'/></interface><interface><alias");
    expect(answer).toContain("<devices><disk/><interface");
    expect(answer).toContain('<mac address="02:00:00:00:00:09">');
    expect(answer.match(/ua-blue/g)).toHaveLength(1);
    expect(answer).not.toContain("trustGuestRxFilters");
  });

  it("gets address and MAC of the VMI where it has them", () => {
    const one = nic("blue", {
      mac: "02:00:00:00:00:01",
      pciAddress: { domain: "0x0000", bus: "0x81", slot: "0x01", function: "0x0" },
    });
    const answer = define(`<domain>${BACKING}<devices>${stripped}</devices></domain>`, vmi([one]));
    expect(answer).toContain('<mac address="02:00:00:00:00:01">');
    expect(answer.match(/<address type/g)).toHaveLength(1);
    expect(answer).toContain('bus="0x81"');
  });

  it("is refused when it is there twice", () => {
    const xml = `<domain><devices>${stripped}${stripped}</devices></domain>`;
    expect(() => define(xml, vmi([nic("blue")]))).toThrow(
      expect.objectContaining({ code: "invalid-domain", message: expect.stringContaining('"ua-blue"') }),
    );
  });
});

describe("the place of a new interface", () => {
  const has = (alias: string) => `<interface type="ethernet"><alias name="${alias}"></alias></interface>`;
  const aliases = (xml: string) => [...xml.matchAll(/<alias name="([^"]*)"/g)].map(([, alias]) => alias);

  it.each([
    ["between those that the VMI lists around it", ["ua-a", "ua-d"], ["ua-a", "ua-b", "ua-c", "ua-d"]],
    [
      "behind the one in front of it, before placeholders",
      ["ua-a", "placeholder-0"],
      ["ua-a", "ua-b", "ua-c", "placeholder-0"],
    ],
    [
      "before the first that follows it",
      ["ua-d", "placeholder-0"],
      ["ua-b", "ua-c", "ua-d", "placeholder-0"],
    ],
    ["before placeholders where it is alone", ["placeholder-0"], ["ua-b", "ua-c", "placeholder-0"]],
    ["beside one of ours that is there", ["ua-a", "ua-c"], ["ua-a", "ua-b", "ua-c"]],
    ["anywhere in a domain that has no interface", [], ["ua-b", "ua-c"]],
  ])("is %s", (_name, before, after) => {
    const guest = vmi([nic("b"), nic("c")], { order: ["a", "b", "c", "d"] });
    for (const gap of ["", "\n\t\t"]) {
      const devices = before.map((alias) => gap + has(alias)).join("");
      const answer = define(`<domain>${BACKING}<devices>${devices}</devices></domain>`, guest);
      expect(aliases(answer)).toEqual(after);
    }
  });

  it("is a line of its own, indented as its neighbours are", () => {
    const xml = `<domain>${BACKING}\n  <devices>\n    ${has("ua-a")}\n  </devices>\n</domain>`;
    const answer = define(xml, vmi([nic("b")], { order: ["a", "b"] }));
    expect(answer).toContain(`${has("ua-a")}\n    <interface type="vhostuser">\n      <source`);
    expect(answer).toContain("\n    </interface>\n  </devices>\n</domain>");
  });

  it("is refused without <devices>", () => {
    expect(() => define("<domain/>", vmi([nic("b")]))).toThrow(
      expect.objectContaining({ code: "invalid-domain" }),
    );
  });
});

describe("an interface of a VM on the root complex", () => {
  const address = (slot: number) => `<address type='pci' bus='0x00' slot='0x${slot.toString(16)}'/>`;
  const withDisks = (slots: readonly number[]) =>
    `<domain><devices>${slots.map((slot) => `<disk>${address(slot)}</disk>`).join("")}</devices></domain>`;
  const slotOf = (xml: string, name: string) =>
    new RegExp(`<alias name="ua-${name}"></alias><address [^>]*bus="0x00" slot="(\\w+)"`).exec(xml)?.[1];

  it("is in a slot that neither KubeVirt's devices nor another interface has", () => {
    const red = { domain: "0x0000", bus: "0x00", slot: "0x03", function: "0x0" };
    const guest = vmi([nic("blue"), nic("red", { pciAddress: red })], { onRootComplex: true });
    const sockets = new Map(guest.interfaces.map(({ name }) => [name, socket({ path: `/run/${name}` })]));
    const xml = defineDomain(withDisks([2, 5]), guest, sockets);
    expect([slotOf(xml, "blue"), slotOf(xml, "red")]).toEqual(["0x04", "0x03"]);
  });

  it("is left to libvirt where every slot is taken", () => {
    const guest = vmi([nic("blue")], { onRootComplex: true });
    const xml = define(withDisks([...Array(32).keys()]), guest);
    expect(xml).toContain('<alias name="ua-blue"></alias></interface>');
  });
});

describe("the guest's memory", () => {
  const memory = (parts: string) =>
    define(`<domain>${parts}<devices>\n</devices></domain>`, vmi([nic("blue")]));
  const backing = (xml: string) => /<memoryBacking>.*<\/memoryBacking>/s.exec(xml)?.[0];

  it("becomes shared memfd where KubeVirt says nothing", () => {
    expect(memory('\n\t<name>x</name>\n\t<memory unit="b">1</memory>\n\t')).toContain(
      '\n\t<memoryBacking>\n\t\t<source type="memfd"></source>\n\t\t<access mode="shared"></access>\n\t</memoryBacking>',
    );
    expect(backing(memory(""))).toBe(BACKING);
    expect(backing(memory("<memoryBacking/>"))).toBe(BACKING);
  });

  it.each([
    ["of hugepages and memfd", '<hugepages></hugepages><source type="memfd"></source>'],
    ["of hugepages alone", "<hugepages><page size='1' unit='G' nodeset=''/></hugepages>"],
    ["of another source", "<source type='file'/>"],
    ["of allocated hugepages", "<hugepages/><allocation mode='immediate'/>"],
  ])("%s becomes shared and stays what it is", (_name, inner) => {
    expect(backing(memory(`<memoryBacking>${inner}</memoryBacking>`))).toBe(
      `<memoryBacking>${inner}<access mode="shared"></access></memoryBacking>`,
    );
  });

  it("gets a source beside shared access that has none, for else it would be a file on disk", () => {
    expect(backing(memory("<memoryBacking><access mode='shared'/></memoryBacking>"))).toBe(
      "<memoryBacking><access mode='shared'/><source type=\"memfd\"></source></memoryBacking>",
    );
  });

  it("is shared in every NUMA cell", () => {
    const cells =
      "<cell id='0' cpus='0' memory='1' unit='KiB'/><cell id='1' memAccess='shared'><distances/></cell><cell id='2'></cell>";
    expect(memory(`${BACKING}<cpu><numa>${cells}</numa></cpu>`)).toContain(
      "<cell id='0' cpus='0' memory='1' unit='KiB' memAccess=\"shared\"/><cell id='1' memAccess='shared'>" +
        "<distances/></cell><cell id='2' memAccess=\"shared\"></cell>",
    );
  });

  it.each([
    ["private backing", "<memoryBacking><access mode='private'/></memoryBacking>", 'mode="private"'],
    [
      "memory that has no file descriptor",
      "<memoryBacking><source type='anonymous'/></memoryBacking>",
      'type="anonymous"',
    ],
    ["a private cell", "<cpu><numa><cell id='0' memAccess='private'/></numa></cpu>", "cell 0"],
  ])("is refused with %s", (_name, parts, words) => {
    expect(() => memory(parts)).toThrow(
      expect.objectContaining({
        code: "invalid-domain",
        message: expect.stringContaining(words),
        fix: expect.stringContaining("remove"),
      }),
    );
  });
});

it("refuses a memory module that is private", () => {
  const xml = "<domain><devices><memory model='dimm' access='private'/></devices></domain>";
  expect(() => define(xml, vmi([nic("blue")]))).toThrow(
    expect.objectContaining({ code: "invalid-domain", message: expect.stringContaining('access="private"') }),
  );
});

describe("the virtual IOMMU", () => {
  const guest = (iommu: "intel" | "smmuv3") =>
    vmi([nic("blue", { settings: { iommu: true } }), nic("red")], { iommu });
  const IOMMU = '<iommu model="intel"><driver intremap="on" iotlb="on"></driver></iommu>';
  const IOAPIC = '<ioapic driver="qemu"></ioapic>';

  it("is a device with interrupt remapping, and the NIC that asks for it is behind it", () => {
    const answer = define(`<domain><features><acpi/></features><devices/></domain>`, guest("intel"));
    expect(answer).toContain(`<features><acpi/>${IOAPIC}</features>`);
    expect(answer).toContain(`${IOMMU}</devices>`);
    expect(answer.match(/iommu="on" ats="on"/g)).toHaveLength(1);
  });

  it("makes a missing <features>", () => {
    const answer = define(`<domain>\n  ${BACKING}\n  <devices/>\n</domain>`, guest("intel"));
    expect(answer).toContain(`\n  <features>\n    ${IOAPIC}\n  </features>\n</domain>`);
  });

  it("is Arm's on arm64", () => {
    const answer = define("<domain><devices/></domain>", guest("smmuv3"));
    expect(answer).toContain('<iommu model="smmuv3"></iommu></devices>');
    expect(answer).not.toContain("ioapic");
  });

  it("is not changed where the domain has one", () => {
    const answer = define("<domain><devices><iommu model='virtio'/></devices></domain>", guest("intel"));
    expect(answer.match(/<iommu/g)).toHaveLength(1);
    expect(answer).not.toContain("ioapic");
  });

  it("is refused with the I/O APIC in the kernel", () => {
    const xml = "<domain><features><ioapic driver='kvm'/></features><devices/></domain>";
    expect(() => define(xml, guest("intel"))).toThrow(
      expect.objectContaining({ code: "invalid-domain", message: expect.stringContaining('driver="kvm"') }),
    );
  });
});

describe("the guest's MTU", () => {
  const property = (mtu: number) =>
    `<qemu:property name="host_mtu" type="unsigned" value="${mtu}"></qemu:property>`;
  const ofQemu = (xml: string) => /<qemu:override.*<\/qemu:override>/s.exec(xml)?.[0] ?? "none";
  const withOverride = (inner: string) =>
    `<domain xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0">${BACKING}<devices>\n</devices>${inner}</domain>`;
  const device = (mtu: number) =>
    `<qemu:device alias="ua-blue"><qemu:frontend>${property(mtu)}</qemu:frontend></qemu:device>`;

  it("is advertised by QEMU, because libvirt's own <mtu> needs a network device on the host", () => {
    const answer = define(withOverride(""), vmi([nic("blue")]), { mtu: 9000 });
    expect(ofQemu(answer)).toBe(`<qemu:override>${device(9000)}</qemu:override>`);
    expect(answer).not.toContain("<mtu");
  });

  it("declares QEMU's namespace where the domain doesn't", () => {
    const answer = define(EMPTY, vmi([nic("blue"), nic("red")]), { mtu: 1450 });
    expect(ofQemu(answer)).toContain(
      '<qemu:override xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0">',
    );
    expect(answer.match(/value="1450"/g)).toHaveLength(2);
  });

  it("is not advertised where it is every guest's default", () => {
    expect(ofQemu(define(withOverride(""), vmi([nic("blue")]), { mtu: 1500 }))).toBe("none");
  });

  it.each([
    ["other devices", "<qemu:device alias='ua-x'/>", `<qemu:device alias='ua-x'/>${device(9000)}`],
    ["another MTU of ours", device(1450), device(9000)],
    [
      "another property of the same device",
      "<qemu:device alias='ua-blue'><qemu:frontend><qemu:property name='x' type='bool' value='true'/></qemu:frontend></qemu:device>",
      `<qemu:device alias='ua-blue'><qemu:frontend><qemu:property name='x' type='bool' value='true'/>${property(9000)}</qemu:frontend></qemu:device>`,
    ],
    [
      "the same device without a front end",
      "<qemu:device alias='ua-blue'></qemu:device>",
      `<qemu:device alias='ua-blue'><qemu:frontend>${property(9000)}</qemu:frontend></qemu:device>`,
    ],
  ])("is added to an override of %s", (_name, before, after) => {
    const xml = withOverride(`<qemu:override>${before}</qemu:override>`);
    expect(ofQemu(define(xml, vmi([nic("blue")]), { mtu: 9000 }))).toBe(
      `<qemu:override>${after}</qemu:override>`,
    );
  });

  it("is added to an override that a plugin printed with the namespace instead of the prefix", () => {
    const open = '<override xmlns="http://libvirt.org/schemas/domain/qemu/1.0">';
    const answer = define(withOverride(`${open}<device alias="x"/></override>`), vmi([nic("blue")]), {
      mtu: 9000,
    });
    expect(answer).toContain(
      '<device alias="x"/><device alias="ua-blue"><frontend><property name="host_mtu" type="unsigned" value="9000">',
    );
    expect(answer).not.toContain("qemu:override");
  });
});
