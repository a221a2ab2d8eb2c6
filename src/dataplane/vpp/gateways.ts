import { Failure, timeoutFailure } from "../../failure/failure.ts";
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
} from "../../protocols/vpp-api/routing-messages.ts";
import { nodeDigest } from "./mark.ts";
import { requireDone, type VppRequests, type VppWork } from "./requests.ts";
import {
  addressOf,
  type Gateway,
  hostPrefix,
  printAddress,
  type Routing,
  setTables,
} from "./routed-state.ts";
import type { Interface } from "./view.ts";
import { ADMIN_UP } from "./wiring.ts";

/**
 * The MAC of this node's loopbacks, which is their mark: they have it from their first moment, unlike a tag. No
 * frame carries it, for every port answers with its own.
 */
function gatewayMac(node: string): Buffer {
  return Buffer.from(`026b76${nodeDigest(node).slice(0, 6)}`, "hex");
}

/**
 * Runs `task` while it alone changes the gateways.
 * @throws Failure dataplane-timeout when the signal fires first
 */
export function lockGateways<Value>(work: VppWork, what: string, task: () => Promise<Value>): Promise<Value> {
  const { signal, context } = work;
  return context.gateways.run({ key: "gateways", what, signal }, task, (_busy, holder) => {
    throw timeoutFailure(signal, { what: `${what} timed out while ${holder} is changing VPP's gateways` });
  });
}

/** All of this node's, as they are now. */
export async function readGateways(vpp: VppRequests, node: string): Promise<readonly Gateway[]> {
  const rows = await gatewayRows(vpp, node);
  return Promise.all(
    rows.map(async ({ sw_if_index, flags }) => {
      const [{ vrf_id }, ...addresses] = await Promise.all([
        vpp.request(getTable, { sw_if_index, is_ipv6: false }),
        ...[false, true].map((is_ipv6) => vpp.dump(dumpAddresses, { sw_if_index, is_ipv6 })),
      ]);
      return {
        index: sw_if_index,
        vrf: vrf_id,
        isUp: (flags & ADMIN_UP) !== 0,
        addresses: new Set(addresses.flat().map(({ prefix }) => printAddress(prefix))),
      };
    }),
  );
}

/**
 * The index of a loopback that holds all gateways of a routing: one of ours that has some of them already, else a new
 * one. Only under {@link lockGateways}.
 * @throws Failure dataplane-misconfigured where the addresses cannot be had together
 */
export async function ensureGateway(
  work: VppWork,
  gateways: readonly Gateway[],
  { vrf, gateways: addresses }: Routing,
  port: string,
): Promise<number> {
  const { node } = work.context;
  const [holder, other] = gateways.filter(
    (gateway) => gateway.vrf === vrf && addresses.some((address) => gateway.addresses.has(address)),
  );
  const texts = addresses.join(" and ");
  if (other !== undefined) {
    throw new Failure({
      code: "dataplane-misconfigured",
      what: `gateways ${texts} are in use in VRF ${vrf} by ports of two networks that have only one of them each`,
      where: `port ${port}`,
      fix: "give networks of one VRF the same pair of gateways, or VRFs of their own",
    });
  }
  const order = work.orders(`port ${port}, gateway ${texts}`);
  const index = holder?.index ?? (await order(createLoopback, { mac_address: gatewayMac(node) })).sw_if_index;
  const missing = addresses.filter((address) => holder?.addresses.has(address) !== true);
  const tag = `kvu1:${nodeDigest(node)}:gateway:${vrf}`;
  const initial = () => [
    order(tagInterface, { is_add: true, sw_if_index: index, tag }),
    ...setTables(order, index, vrf),
  ];
  // One that is not made whole is not used, and goes with the next removal of those.
  await Promise.all([
    ...(holder === undefined ? initial() : []),
    ...missing.map((address) => addGatewayAddress(work, index, address, { vrf, port })),
    order(setInterfaceFlags, { sw_if_index: index, flags: ADMIN_UP }),
  ]);
  return index;
}

/** Deletes our loopbacks that no port uses any more. @returns how many there were */
export function removeGateways(work: VppWork): Promise<number> {
  return lockGateways(work, "removal of unused gateways", () => removeUnusedGateways(work));
}

/**
 * The same for one that holds {@link lockGateways} already: a loopback that was just made is not used yet.
 * @returns how many there were
 */
export async function removeUnusedGateways(work: VppWork): Promise<number> {
  const [rows, users] = await Promise.all([
    gatewayRows(work, work.context.node),
    work.dump(dumpUnnumbered, { sw_if_index: ANY_INDEX }),
  ]);
  const used = new Set(users.map(({ ip_sw_if_index }) => ip_sw_if_index));
  const unused = rows.filter(({ sw_if_index }) => !used.has(sw_if_index));
  await Promise.all(unused.map(({ sw_if_index }) => work.request(deleteLoopback, { sw_if_index })));
  return unused.length;
}

async function gatewayRows(vpp: VppRequests, node: string): Promise<readonly Interface[]> {
  const loopbacks = { sw_if_index: ANY_INDEX, name_filter_valid: true, name_filter: "loop" };
  const rows = await vpp.dump(dumpInterfaces, loopbacks);
  return rows.filter(
    (row) => row.interface_name.startsWith("loop") && row.l2_address.equals(gatewayMac(node)),
  );
}

async function addGatewayAddress(
  vpp: VppRequests,
  sw_if_index: number,
  address: string,
  { vrf, port }: { readonly vrf: number; readonly port: string },
): Promise<void> {
  const values = { sw_if_index, is_add: true, del_all: false, prefix: hostPrefix(addressOf(address)) };
  const { retval } = await vpp.request(addAddress, values);
  const where = `port ${port}, gateway ${address}`;
  if (!ADDRESS_TAKEN.includes(retval)) return requireDone(retval, where);
  throw new Failure({
    code: "dataplane-misconfigured",
    what: `gateway ${address} is in a network that another interface of VRF ${vrf} has an address of`,
    where: `port ${port}`,
    fix: "give the network a VRF of its own, or IPAM a range that nothing else has (vppctl show interface address)",
  });
}
