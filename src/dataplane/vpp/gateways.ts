import { Failure } from "../../failure/failure.ts";
import type { VppConnection } from "../../protocols/vpp-api/connection.ts";
import {
  ANY_INDEX,
  dumpInterfaces,
  setInterfaceFlags,
  tagInterface,
} from "../../protocols/vpp-api/messages.ts";
import { ADDRESS_TAKEN } from "../../protocols/vpp-api/retval.ts";
import {
  addAddress,
  createLoopback,
  deleteLoopback,
  dumpAddresses,
  dumpUnnumbered,
  getTable,
  setTable,
} from "../../protocols/vpp-api/routing-messages.ts";
import { nodeDigest } from "./mark.ts";
import { orders, requireDone } from "./require-done.ts";
import { type Address, addressKey, hostPrefix, printAddress, type Routing } from "./routing.ts";
import type { Interface } from "./view.ts";
import { ADMIN_UP } from "./wiring.ts";

/**
 * A loopback that holds the gateways of routed ports; they are without an address of their own (unnumbered) and use
 * its. VPP has an address once in a table, so that all ports of a network share one.
 */
export interface Gateway {
  readonly index: number;
  readonly vrf: number;
  readonly isUp: boolean;
  /** By {@link addressKey}. */
  readonly addresses: ReadonlySet<string>;
}

/**
 * The MAC of this node's loopbacks, which is their mark: it is there from their first moment, as a tag is not. No
 * frame carries it, for every port answers with its own.
 */
function gatewayMac(node: string): Buffer {
  return Buffer.from(`026b76${nodeDigest(node).slice(0, 6)}`, "hex");
}

/** Whether an interface is a loopback of this node's. */
export function isGateway(row: Pick<Interface, "l2_address" | "interface_name">, node: string): boolean {
  return row.interface_name.startsWith("loop") && row.l2_address.equals(gatewayMac(node));
}

/** All of this node's, as they are now. */
export async function readGateways(
  connection: VppConnection,
  node: string,
  signal: AbortSignal,
): Promise<readonly Gateway[]> {
  const rows = await gatewayRows(connection, node, signal);
  return Promise.all(
    rows.map(async ({ sw_if_index, flags }) => {
      const [{ vrf_id }, ...addresses] = await Promise.all([
        connection.request(getTable, { sw_if_index, is_ipv6: false }, signal),
        ...[false, true].map((is_ipv6) => connection.dump(dumpAddresses, { sw_if_index, is_ipv6 }, signal)),
      ]);
      return {
        index: sw_if_index,
        vrf: vrf_id,
        isUp: (flags & ADMIN_UP) !== 0,
        addresses: new Set(addresses.flat().map(({ prefix }) => addressKey(prefix))),
      };
    }),
  );
}

/**
 * The index of a loopback that holds all gateways of a routing: one of ours that has some of them already, else a new
 * one. Only in the turn of {@link VppContext.gateways}.
 * @throws Failure dataplane-misconfigured where the addresses cannot be had together
 */
export async function ensureGateway(
  connection: VppConnection,
  gateways: readonly Gateway[],
  routing: Routing,
  { node, port }: { readonly node: string; readonly port: string },
  signal: AbortSignal,
): Promise<number> {
  const { vrf } = routing;
  const inVrf = gateways.filter((gateway) => gateway.vrf === vrf);
  const holders = inVrf.filter(({ addresses }) =>
    routing.gateways.some((address) => addresses.has(addressKey(address))),
  );
  const [holder, other] = holders;
  const texts = routing.gateways.map(printAddress).join(" and ");
  if (other !== undefined) {
    throw new Failure({
      code: "dataplane-misconfigured",
      what: `gateways ${texts} are in use in VRF ${vrf} by ports of two networks that have only one of them each`,
      where: `port ${port}`,
      fix: "give networks of one VRF the same pair of gateways, or VRFs of their own",
    });
  }
  const order = orders(connection, `port ${port}, gateway ${texts}`, signal);
  const index = holder?.index ?? (await order(createLoopback, { mac_address: gatewayMac(node) })).sw_if_index;
  const missing = routing.gateways.filter((address) => holder?.addresses.has(addressKey(address)) !== true);
  try {
    await Promise.all([
      ...(holder === undefined
        ? [
            order(tagInterface, {
              is_add: true,
              sw_if_index: index,
              tag: `kvu1:${nodeDigest(node)}:gateway:${vrf}`,
            }),
            ...[false, true].map((is_ipv6) => order(setTable, { sw_if_index: index, is_ipv6, vrf_id: vrf })),
          ]
        : []),
      ...missing.map((address) => giveAddress(connection, index, address, { vrf, port }, signal)),
      order(setInterfaceFlags, { sw_if_index: index, flags: ADMIN_UP }),
    ]);
  } catch (failure) {
    if (holder === undefined && !connection.lost.aborted) {
      await connection
        .request(deleteLoopback, { sw_if_index: index }, AbortSignal.timeout(UNDO_MS))
        .catch(() => undefined); // else the next removal of unused ones has it
    }
    throw failure;
  }
  return index;
}

/**
 * Deletes the loopbacks of ours that no port uses. Only in the turn of {@link VppContext.gateways}: one that was just
 * made is not used yet.
 * @returns how many there were
 */
export async function removeUnusedGateways(
  connection: VppConnection,
  node: string,
  signal: AbortSignal,
): Promise<number> {
  const [rows, users] = await Promise.all([
    gatewayRows(connection, node, signal),
    connection.dump(dumpUnnumbered, { sw_if_index: ANY_INDEX }, signal),
  ]);
  const used = new Set(users.map(({ ip_sw_if_index }) => ip_sw_if_index));
  const unused = rows.filter(({ sw_if_index }) => !used.has(sw_if_index));
  await Promise.all(
    unused.map(({ sw_if_index }) => connection.request(deleteLoopback, { sw_if_index }, signal)),
  );
  return unused.length;
}

const UNDO_MS = 2000;

async function gatewayRows(
  connection: VppConnection,
  node: string,
  signal: AbortSignal,
): Promise<readonly Interface[]> {
  const loopbacks = { sw_if_index: ANY_INDEX, name_filter_valid: true, name_filter: "loop" };
  const rows = await connection.dump(dumpInterfaces, loopbacks, signal);
  return rows.filter((row) => isGateway(row, node));
}

async function giveAddress(
  connection: VppConnection,
  sw_if_index: number,
  address: Address,
  { vrf, port }: { readonly vrf: number; readonly port: string },
  signal: AbortSignal,
): Promise<void> {
  const values = { sw_if_index, is_add: true, del_all: false, prefix: hostPrefix(address) };
  const { retval } = await connection.request(addAddress, values, signal);
  const where = `port ${port}, gateway ${printAddress(address)}`;
  if (!ADDRESS_TAKEN.includes(retval)) return requireDone(retval, where);
  throw new Failure({
    code: "dataplane-misconfigured",
    what: `gateway ${printAddress(address)} is in a network that another interface of VRF ${vrf} has an address of`,
    where: `port ${port}`,
    fix: "give the network a VRF of its own, or IPAM a range that nothing else has (vppctl show interface address)",
  });
}
