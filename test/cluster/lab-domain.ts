import type { GuestImage } from "../guest/image.ts";
import { child, node, withChild, type XmlNode } from "../stand-in/virt-launcher/xml-tree.ts";

/** Where the guest's serial console is in the compute container, as in KubeVirt. */
const CONSOLE = "/var/run/kubevirt-private/virt-serial0";

/**
 * KubeVirt's domain as the lab's machine can run it: a kernel and an initramfs instead of a disk, a serial
 * console, no vhost-net. Nothing of it touches what the sidecar is about.
 */
export function labDomain(image: GuestImage): (domain: XmlNode) => XmlNode {
  return (domain) => {
    const os = child(domain, "os");
    const devices = child(domain, "devices");
    if (os === undefined || devices === undefined) throw new Error("the domain has no os or no devices");
    const boot = {
      ...os,
      children: [
        ...os.children,
        node("kernel", {}, image.kernel),
        node("initrd", {}, image.initrd),
        node("cmdline", {}, image.cmdline),
      ],
    };
    const console = node("serial", { type: "unix" }, [
      node("source", { mode: "bind", path: CONSOLE }),
      node("target", { port: "0" }),
    ]);
    const kept = devices.children
      .filter(({ name }) => name !== "disk" && name !== "video")
      .map(withoutVhostNet);
    const withDevices = withChild(domain, { ...devices, children: [...kept, console] });
    return withChild(withDevices, boot);
  };
}

function withoutVhostNet(device: XmlNode): XmlNode {
  if (device.name !== "interface") return device;
  return { ...device, children: device.children.filter(({ name }) => name !== "driver") };
}
