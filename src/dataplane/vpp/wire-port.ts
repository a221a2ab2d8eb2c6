import {
  addPolicer,
  createVlan,
  deleteSubInterface,
  filterVlanTag,
  policeInput,
  policeOutput,
  rewriteVlanTag,
  setBridge,
  setInterfaceFlags,
} from "../../protocols/vpp-api/messages.ts";
import { DIRECTIONS, NO_POLICER, policerName } from "./policers.ts";
import type { Order, VppRequests } from "./requests.ts";
import type { Interface } from "./view.ts";
import { ADMIN_UP, type Member, REWRITE_ADD, REWRITE_ONE_BY_ONE, type Wiring } from "./wiring.ts";

/** What is wired. */
export interface WiredPort {
  readonly node: string;
  readonly name: string;
  readonly index: number;
  readonly subInterfaces: readonly Pick<Interface, "sw_if_index" | "sub_id">[];
}

/**
 * Undoes a port's wiring and makes it again. VPP says neither to which interfaces a policer is applied nor whether
 * the filter for tags is on, so both are set in the same write as what can be read back: a policer that exists is
 * applied, a member that rewrites tags is filtered. VPP counts how often a policer is applied, and writes beside its
 * memory where one is taken off an interface with a higher number than any that ever had one; so a policer is taken
 * off exactly where it was put on.
 */
export async function wirePort(vpp: VppRequests, port: WiredPort, wiring: Wiring): Promise<void> {
  const order = vpp.orders(`port ${port.name}`);
  const members = await makeMembers(vpp, port, wiring, order);
  const { bridge, group, vlans } = wiring;
  const join = (member: number, how: Member) =>
    bridge === undefined ? [] : joinBridge(order, member, how, { bridge, group });
  await Promise.all([
    ...(vlans.whole === undefined ? [] : join(port.index, vlans.whole)),
    ...[...vlans.vlans].flatMap(([vlan, how]) => join(members.get(vlan) ?? port.index, how)),
    ...[...wiring.policers].flatMap(([direction, policer]) => {
      const name = policerName(port.node, port.name, port.index, direction);
      const police = direction === "in" ? policeInput : policeOutput;
      return [
        order(addPolicer, { is_add: true, name, ...policer }),
        ...[port.index, ...members.values()].map((sw_if_index) =>
          order(police, { name, sw_if_index, apply: true }),
        ),
      ];
    }),
    // Last, so that no frame passes before filters and limits are on.
    ...[port.index, ...members.values()].map((sw_if_index) =>
      order(setInterfaceFlags, { sw_if_index, flags: ADMIN_UP }),
    ),
  ]);
}

/** Takes our policers off a port's interfaces and deletes them; those that are not there are fine. */
export async function removePolicers(
  vpp: VppRequests,
  { node, name, index, subInterfaces }: WiredPort,
): Promise<void> {
  if (!vpp.connection.knows(addPolicer)) return;
  const members = [index, ...subInterfaces.map(({ sw_if_index }) => sw_if_index)];
  await Promise.all(
    DIRECTIONS.flatMap((direction) => {
      const policer = policerName(node, name, index, direction);
      const police = direction === "in" ? policeInput : policeOutput;
      return [
        ...members.map((sw_if_index) => vpp.request(police, { name: policer, sw_if_index, apply: false })),
        deletePolicer(vpp, policer),
      ];
    }),
  );
}

/** Deletes a policer that polices nothing any more; gone is fine. */
export async function deletePolicer(vpp: VppRequests, name: string): Promise<void> {
  await vpp.request(addPolicer, { is_add: false, name, ...NO_POLICER });
}

/** Takes the port out of the bridge, and gives the sub-interfaces that it needs, by VLAN. */
async function makeMembers(
  vpp: VppRequests,
  port: WiredPort,
  { vlans: { vlans } }: Wiring,
  order: Order,
): Promise<ReadonlyMap<number, number>> {
  const kept = port.subInterfaces.filter(({ sub_id }) => vlans.has(sub_id));
  const missing = [...vlans.keys()].filter((vlan) => kept.every(({ sub_id }) => sub_id !== vlan));
  const surplus = port.subInterfaces.filter((row) => !kept.includes(row));
  const undone = [
    removePolicers(vpp, port),
    ...[port.index, ...kept.map(({ sw_if_index }) => sw_if_index)].map((member) =>
      leaveBridge(order, member),
    ),
    ...surplus.map(({ sw_if_index }) => order(deleteSubInterface, { sw_if_index })),
  ];
  const made = missing.map(async (vlan) => {
    const { sw_if_index } = await order(createVlan, { sw_if_index: port.index, vlan_id: vlan });
    return [vlan, sw_if_index] as const;
  });
  const [entries] = await Promise.all([Promise.all(made), Promise.all(undone)]);
  return new Map([...kept.map(({ sub_id, sw_if_index }) => [sub_id, sw_if_index] as const), ...entries]);
}

/** Back to layer 3, which clears tag rewriting and filter too. */
function leaveBridge(order: Order, rx_sw_if_index: number): Promise<unknown> {
  return order(setBridge, { rx_sw_if_index, bd_id: 0, port_type: 0, shg: 0, enable: false });
}

/**
 * Into the bridge domain. The filter drops, on the way to the guest, frames of other VLANs than the member's: without
 * it a tag is taken off whatever VLAN it names, and every sub-interface gives out the floods of all VLANs (both seen).
 */
function joinBridge(
  order: Order,
  sw_if_index: number,
  { rewrite }: Member,
  { bridge, group }: { readonly bridge: number; readonly group: number },
): Promise<unknown>[] {
  const join = { rx_sw_if_index: sw_if_index, bd_id: bridge, port_type: 0, shg: group, enable: true };
  const joined = order(setBridge, join);
  if (rewrite === undefined) return [joined];
  return [
    joined,
    order(rewriteVlanTag, {
      sw_if_index,
      vtr_op: rewrite.op === "add" ? REWRITE_ADD : REWRITE_ONE_BY_ONE,
      push_dot1q: rewrite.ethertype === "802.1q" ? 1 : 0,
      tag1: rewrite.tag,
      tag2: 0,
    }),
    order(filterVlanTag, { sw_if_index, enable_disable: true }),
  ];
}
