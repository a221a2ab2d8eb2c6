import type { Libvirt } from "./virt-launcher.ts";
import { child, node, parseXml, printXml, withChild, type XmlNode } from "./xml-tree.ts";

/** A libvirt that gives every interface without an address the next bus, in document order. */
export class AddressingLibvirt implements Libvirt {
  #defined: XmlNode | undefined;

  async define(xml: string) {
    const domain = parseXml(xml);
    const devices = child(domain, "devices") ?? node("devices");
    let bus = 0;
    const children = devices.children.map((one) => {
      if (one.name !== "interface") return one;
      bus += 1;
      if (child(one, "address") !== undefined) return one;
      return withChild(one, node("address", { type: "pci", bus: `0x0${bus}` }));
    });
    this.#defined = withChild(domain, { ...devices, children });
  }

  async dumpInactiveXml() {
    if (this.#defined === undefined) throw new Error("nothing is defined");
    return printXml(this.#defined);
  }

  async undefine() {
    this.#defined = undefined;
  }
}
