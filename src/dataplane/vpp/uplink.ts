import { Failure } from "../../failure/failure.ts";
import { present } from "../../names/present.ts";
import { commonUplink, pciDevice, type Uplink } from "../uplink.ts";
import { findBridge } from "./bridges.ts";
import { startWork, type VppContext } from "./requests.ts";
import { type Interface, mtuOf, shareView, type View } from "./view.ts";

/**
 * {@link Dataplane.uplink}. VPP's API says nothing of hardware, but names interfaces on PCI devices after the device's
 * bus, slot and function.
 */
export async function readUplink(context: VppContext, bridge: string, signal: AbortSignal): Promise<Uplink> {
  const view = await shareView(await startWork(context, signal));
  const ports = uplinksOf(view, bridge).flatMap((row) => {
    const address = pciAddress(row);
    return address === undefined ? [] : { address, mtu: mtuOf({ interface: row }) || undefined };
  });
  return commonUplink(
    await Promise.all(
      ports.map(async ({ address, mtu }) => present({ ...(await pciDevice(context.sysfs, address)), mtu })),
    ),
  );
}

/** Hardware interfaces that are in the bridge domain, themselves or by a sub-interface. */
export function uplinksOf(
  view: Pick<View, "bridges" | "members" | "interfaces">,
  name: string,
): readonly Interface[] {
  const bridge = findBridge(view, name);
  if (bridge instanceof Failure) return [];
  const uplinks = [...view.members].flatMap(([member, { bridge: of }]) => {
    const row = of === bridge.bd_id ? view.interfaces.get(member) : undefined;
    return row === undefined ? [] : (view.interfaces.get(row.sup_sw_if_index) ?? []);
  });
  return [...new Set(uplinks)];
}

/** The PCI address in a name such as `TenGigabitEthernet3b/0/1`, or `...1/3b/0/1` outside PCI domain 0. */
export function pciAddress(
  row: Pick<Interface, "interface_name" | "interface_dev_type">,
): string | undefined {
  if (row.interface_dev_type === "vhost-user") return undefined;
  const match = /^[A-Za-z]*Ethernet(?:([0-9a-f]{1,4})\/)?([0-9a-f]{1,2})\/([0-9a-f]{1,2})\/([0-7])$/.exec(
    row.interface_name,
  );
  if (match === null) return undefined;
  const [, domain = "0", bus = "", slot = "", fn = ""] = match;
  return `${domain.padStart(4, "0")}:${bus.padStart(2, "0")}:${slot.padStart(2, "0")}.${fn}`;
}
