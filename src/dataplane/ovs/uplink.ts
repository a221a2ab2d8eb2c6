import { Failure } from "../../failure/failure.ts";
import { present } from "../../names/present.ts";
import { commonUplink, parseNode, pciDevice, type Uplink } from "../uplink.ts";
import { type OvsContext, readRows } from "./database.ts";
import { bridgePortsTable, type InterfaceRow, interfaceTable, type PortRow, portTable } from "./tables.ts";

/** Interface.type of a physical port that DPDK drives. */
const UPLINK = "dpdk";
/** Interface.type of a link between two bridges; `options:peer` names its other end. */
const PATCH = "patch";

/**
 * {@link Dataplane.uplink}. Ports of bridges that are joined by patch ports count too, for that is how a bridge for VMs
 * usually reaches the one with the uplinks.
 * @param sysfs where sysfs is mounted
 */
export async function readUplink(
  context: OvsContext,
  bridge: string,
  sysfs: string,
  signal: AbortSignal,
): Promise<Uplink> {
  const queries = [bridgePortsTable.select(), portTable.select(), interfaceTable.select()] as const;
  const [bridges, ports, interfaces] = await readRows(context.client, queries, signal);
  const uplinks = uplinksOf(bridge, { bridges, ports, interfaces });
  return commonUplink(await Promise.all(uplinks.map((uplink) => readPort(uplink, sysfs))));
}

interface Tables {
  readonly bridges: readonly { readonly name: string; readonly ports: readonly string[] }[];
  readonly ports: readonly PortRow[];
  readonly interfaces: readonly InterfaceRow[];
}

/** The physical ports of a bridge and of all bridges that patch ports join to it. */
export function uplinksOf(bridge: string, { bridges, ports, interfaces }: Tables): readonly InterfaceRow[] {
  const interfacesOf = new Map(ports.map((port) => [port._uuid, port.interfaces]));
  const rows = new Map(interfaces.map((row) => [row._uuid, row]));
  const members = new Map(
    bridges.map((each) => {
      const uuids = each.ports.flatMap((port) => interfacesOf.get(port) ?? []);
      return [each.name, uuids.flatMap((uuid) => rows.get(uuid) ?? [])];
    }),
  );
  const reached = new Set([bridge]);
  // Iterating over a set includes what is added meanwhile.
  for (const name of reached) {
    const patches = (members.get(name) ?? []).filter(({ type }) => type === PATCH);
    const peers = new Set(patches.map(({ options }) => options.get("peer")));
    for (const [other, own] of members) if (own.some((row) => peers.has(row.name))) reached.add(other);
  }
  return [...reached].flatMap((name) => (members.get(name) ?? []).filter(({ type }) => type === UPLINK));
}

/**
 * One port: its NUMA node from the switch, else from the kernel for the PCI device that its options name.
 * @throws Failure dataplane-unavailable for a port that the switch has not opened yet
 */
async function readPort(uplink: InterfaceRow, sysfs: string): Promise<Uplink> {
  const address = pciAddress(uplink.options.get("dpdk-devargs"));
  const device = address === undefined ? {} : await pciDevice(sysfs, address);
  const numaNode = parseNode(uplink.status.get("numa_id")) ?? device.numaNode;
  if (numaNode === undefined && uplink.ofport === undefined) {
    throw new Failure({
      code: "dataplane-unavailable",
      what: `the switch has not opened port ${JSON.stringify(uplink.name)} yet`,
      where: "Interface.ofport",
    });
  }
  return present({ ...device, numaNode, mtu: uplink.mtu });
}

/** The PCI address in DPDK's device arguments, which may also name a virtual device or a class. */
export function pciAddress(devargs: string | undefined): string | undefined {
  const match = /^(?:pci:)?((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?:,|$)/i.exec(devargs ?? "");
  const address = match?.[1]?.toLowerCase();
  return address === undefined || address.length > "00:00.0".length ? address : `0000:${address}`;
}
