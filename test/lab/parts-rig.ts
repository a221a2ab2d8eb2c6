import { chmod, chown, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Guest } from "../guest/guest.ts";
import { buildGuestImage, type GuestImage } from "../guest/image.ts";
import { CACHE_DIRECTORY } from "../machine/cache.ts";
import { findGuestKernel } from "../machine/guest-kernel.ts";
import { reserveHugepages } from "../machine/hugepages.ts";
import type { LabRun } from "../machine/lab-run.ts";
import { ensurePackages } from "../machine/packages.ts";
import { type LibvirtNode, startLibvirtNode } from "./libvirt-node.ts";
import { joinBridges, type OvsDpdk, startOvsDpdk } from "./ovs-dpdk.ts";
import { partsDomainXml } from "./parts-domain.ts";
import { type Pod, startPod } from "./pod.ts";
import { TESTPMD_HUGEPAGES } from "./testpmd.ts";

/** Where every pod of the parts test sees its socket directory, whatever the machine calls it. */
export const POD_SOCKETS = "/var/run/vhostuser/sockets";
const POD_CONSOLES = "/var/run/kubevirt-private";
const GUEST_HUGEPAGES = 128;

/** A pod with a libvirtd and a port in the switch. */
export interface PartsPod {
  readonly pod: Pod;
  readonly libvirt: LibvirtNode;
  /** The guest's console as the machine sees it. */
  readonly consolePath: string;
}

/** The parts without our product: a switch with two bridges that stand for two nodes, and pods. */
export interface PartsRig {
  readonly ovs: OvsDpdk;
  readonly image: GuestImage;
  /** A pod with a socket directory of its own and a dpdkvhostuserclient port on a bridge. */
  addPod(name: string, bridge: string): Promise<Pod & { readonly sockets: string }>;
  /** Such a pod with a libvirtd in it. */
  addVmPod(name: string, bridge: string): Promise<PartsPod>;
  /** Defines and starts a guest, waits until it has booted and gives it an address. */
  boot(
    vm: PartsPod,
    options: { name: string; mac: string; address: string; hugepageKiB?: number },
  ): Promise<Guest>;
}

/** Builds the rig; it goes with the run. */
export async function buildPartsRig(run: LabRun): Promise<PartsRig> {
  await ensurePackages(run);
  const kernel = await findGuestKernel();
  if (kernel === undefined) throw new Error("ensurePackages unpacked no guest kernel");
  const image = await buildGuestImage(kernel);
  await reserveHugepages(run, 2048, GUEST_HUGEPAGES + TESTPMD_HUGEPAGES);
  const ovs = await startOvsDpdk(run, { directory: join(run.directory, "ovs"), bridges: ["br-a", "br-b"] });
  await joinBridges(ovs, "br-a", "br-b");

  const directoryFor = async (path: string) => {
    await mkdir(path, { recursive: true });
    await chown(path, 107, 107);
    await chmod(path, 0o2770);
    return path;
  };
  const addPod: PartsRig["addPod"] = async (name, bridge) => {
    const pod = await startPod(run, name);
    const sockets = await directoryFor(join(run.directory, `sockets-of-${name}`));
    await ovs.vsctl(
      ...["add-port", bridge, `vh-${name}`, "--", "set", "Interface", `vh-${name}`],
      ...["type=dpdkvhostuserclient", `options:vhost-server-path=${join(sockets, "vhost.sock")}`],
    );
    return { ...pod, sockets };
  };
  return {
    ovs,
    image,
    addPod,
    addVmPod: async (name, bridge) => {
      const pod = await addPod(name, bridge);
      await pod.network.addTap("tap0");
      const consoles = await directoryFor(join(run.directory, `console-of-${name}`));
      const libvirt = await startLibvirtNode(pod, {
        mounts: [
          { hostPath: pod.sockets, containerPath: POD_SOCKETS },
          { hostPath: consoles, containerPath: POD_CONSOLES },
          { hostPath: CACHE_DIRECTORY, containerPath: CACHE_DIRECTORY, readOnly: true },
        ],
      });
      return { pod, libvirt, consolePath: join(consoles, "serial") };
    },
    boot: async (vm, { name, mac, address, hugepageKiB }) => {
      const xml = partsDomainXml({
        ...{ name, image, mac, tap: "tap0" },
        socketPath: `${POD_SOCKETS}/vhost.sock`,
        consolePath: `${POD_CONSOLES}/serial`,
        ...(hugepageKiB === undefined ? {} : { hugepageKiB }),
      });
      await vm.libvirt.define(xml);
      await vm.libvirt.start(name);
      const guest = new Guest(name, vm.consolePath);
      run.cleanup.defer(`let go of the console of ${name}`, () => guest.console.close());
      await guest.waitForBoot({ signal: run.cleanup.signal });
      await guest.setAddress(mac, address);
      return guest;
    },
  };
}
