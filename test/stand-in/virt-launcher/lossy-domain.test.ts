import { describe, expect, it } from "vitest";
import { throughKubevirtStructs } from "./lossy-domain.ts";

const lines = (...text: string[]) => text.join("\n");

describe("KubeVirt's structs", () => {
  it("lose what makes an interface a vhost-user one, and keep its address", () => {
    const xml =
      "<domain><!-- gone --><devices><interface type='vhostuser'><mac address='a'/>" +
      "<source type='unix' path='/x' mode='server'><reconnect enabled='yes'/></source><target dev='d'/>" +
      "<driver name='vhost' queues='4' rx_queue_size='1024' iommu='on'><host/></driver><coalesce/><alias name='ua-a'/>" +
      "<address type='pci' bus='0x01' multifunction='on'/></interface></devices></domain>";
    expect(throughKubevirtStructs(xml)).toBe(
      lines(
        "<domain>",
        "\t<devices>",
        '\t\t<interface type="vhostuser">',
        '\t\t\t<address type="pci" bus="0x01"></address>',
        '\t\t\t<source mode="server"></source>',
        '\t\t\t<target dev="d"></target>',
        '\t\t\t<mac address="a"></mac>',
        '\t\t\t<alias name="ua-a"></alias>',
        '\t\t\t<driver name="vhost" queues="4" iommu="on"></driver>',
        "\t\t</interface>",
        "\t</devices>",
        "</domain>",
      ),
    );
  });

  it("write <source> and nodeset even when they are empty, and of QEMU's namespace the command line alone", () => {
    const xml =
      "<domain xmlns:qemu='q'><memoryBacking><hugepages><page size='2'/></hugepages><unknown/></memoryBacking>" +
      "<devices><interface/></devices><qemu:commandline><qemu:arg value='a&amp;\"b\"'/></qemu:commandline><qemu:override/></domain>";
    expect(throughKubevirtStructs(xml)).toBe(
      lines(
        '<domain xmlns:qemu="q">',
        "\t<memoryBacking>",
        "\t\t<hugepages>",
        '\t\t\t<page size="2" nodeset=""></page>',
        "\t\t</hugepages>",
        "\t</memoryBacking>",
        "\t<devices>",
        "\t\t<interface>",
        "\t\t\t<source></source>",
        "\t\t</interface>",
        "\t</devices>",
        "\t<qemu:commandline>",
        '\t\t<qemu:arg value="a&amp;&#34;b&#34;"></qemu:arg>',
        "\t</qemu:commandline>",
        "</domain>",
      ),
    );
  });

  it("keep cells with their distances", () => {
    const cell =
      "<cell id='0' cpus='0' memAccess='shared' discard='yes'><distances><sibling id='0' value='10'/></distances></cell>";
    expect(throughKubevirtStructs(`<domain><cpu mode='m'><numa>${cell}</numa></cpu></domain>`)).toContain(
      '<cell id="0" cpus="0" memAccess="shared">\n\t\t\t\t<distances>\n\t\t\t\t\t<sibling id="0" value="10"></sibling>',
    );
  });
});
