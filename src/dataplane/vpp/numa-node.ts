import { Failure } from "../../failure/failure.ts";
import { pciNode } from "../pci-node.ts";
import { findBridge } from "./bridges.ts";
import { startWork, type VppContext } from "./requests.ts";
import { type Interface, shareView, type View } from "./view.ts";

/**
 * {@link Dataplane.numaNode}. VPP's API does not say it, but names interfaces on PCI hardware after the device's
 * bus, slot and function.
 */
export async function numaNode(
  context: VppContext,
  bridge: string,
  signal: AbortSignal,
): Promise<number | undefined> {
  const view = await shareView(await startWork(context, signal));
  const addresses = uplinksOf(view, bridge).flatMap((row) => pciAddress(row) ?? []);
  const nodes = new Set(await Promise.all(addresses.map((address) => pciNode(context.sysfs, address))));
  const [node] = nodes;
  return nodes.size === 1 ? node : undefined;
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
