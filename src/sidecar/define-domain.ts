import { Failure } from "../failure/failure.ts";
import { parseDomain } from "./domain-xml/document.ts";
import { applyEdits } from "./domain-xml/edits.ts";
import { editGuestMtu } from "./domain-xml/guest-mtu.ts";
import { editInterfaces, type VhostUserNic } from "./domain-xml/interface.ts";
import { editIommu } from "./domain-xml/iommu.ts";
import { editMemory } from "./domain-xml/memory.ts";
import type { Vmi, VmiInterface } from "./vmi.ts";

/** What is known of an interface beyond the VMI. */
export interface NicSocket {
  /** The socket's path for the XML. */
  readonly path: string;
  /** MAC of the pod interface; the VMI's own wins. */
  readonly mac: string | undefined;
  readonly mtu: number | undefined;
}

/**
 * The domain with a vhost-user NIC for every interface of ours and memory that the switch can map. Everything
 * else comes back byte for byte, and a second pass changes nothing.
 * @param sockets by interface name
 * @throws Failure `invalid-domain`
 */
export function defineDomain(xml: string, vmi: Vmi, sockets: ReadonlyMap<string, NicSocket>): string {
  const document = parseDomain(xml);
  const nics = vmi.interfaces.map((one) => toNic(one, vmi, sockets.get(one.name)));
  const mtus = vmi.interfaces.flatMap(({ name }) => {
    const mtu = sockets.get(name)?.mtu;
    return mtu === undefined ? [] : [{ name, mtu }];
  });
  const edited = applyEdits(xml, [
    ...editInterfaces(document, nics, vmi.order),
    ...editMemory(document),
    ...editGuestMtu(document, mtus),
  ]);
  if (vmi.iommu === undefined) return edited;
  return applyEdits(edited, editIommu(parseDomain(edited), vmi.iommu));
}

function toNic(one: VmiInterface, vmi: Vmi, socket: NicSocket | undefined): VhostUserNic {
  if (socket === undefined) {
    throw new Failure({ code: "internal", what: `no socket was found for interface ${one.name}` });
  }
  return {
    ...one,
    socketPath: socket.path,
    mac: one.mac ?? socket.mac,
    iommu: vmi.launchSecurity || one.settings.iommu === true,
    noRom: vmi.romTuning && one.bootOrder === undefined,
  };
}
