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
import { lackingMessage } from "./offers.ts";
import { ANY_POLICER, DIRECTIONS, policerName } from "./policers.ts";
import type { Order, VppRequests } from "./requests.ts";
import type { Interface, VppPolicer } from "./view.ts";
import { ADMIN_UP, REWRITE_NONE, type Rewrite, WHOLE, type Wiring } from "./wiring.ts";

const POLICE = { in: policeInput, out: policeOutput } as const;

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
  const interfaces = await makeInterfaces(vpp, port, wiring, order);
  const all = [...interfaces.values()];
  await Promise.all([
    ...[...wiring.members].flatMap(([vlan, rewrite]) =>
      joinBridge(order, interfaces.get(vlan) ?? port.index, rewrite, wiring),
    ),
    ...[...wiring.policers].flatMap(([direction, policer]) => {
      const name = policerName(port.node, port.name, port.index, direction);
      return [
        order(addPolicer, { is_add: true, name, ...policer }),
        ...all.map((sw_if_index) => order(POLICE[direction], { name, sw_if_index, apply: true })),
      ];
    }),
    // Last, so that no frame passes before filters and limits are on.
    ...all.map((sw_if_index) => order(setInterfaceFlags, { sw_if_index, flags: ADMIN_UP })),
  ]);
}

/** Removes our policers from a port's interfaces and deletes them; those that are not there are fine. */
export async function removePolicers(
  vpp: VppRequests,
  { node, name, index, subInterfaces }: WiredPort,
): Promise<void> {
  if (lackingMessage(vpp.connection, "limits") !== undefined) return;
  const members = [index, ...subInterfaces.map(({ sw_if_index }) => sw_if_index)];
  await Promise.all(
    DIRECTIONS.flatMap((direction) => {
      const policer = policerName(node, name, index, direction);
      return [
        ...members.map((sw_if_index) =>
          vpp.request(POLICE[direction], { name: policer, sw_if_index, apply: false }),
        ),
        vpp.request(addPolicer, { is_add: false, name: policer, ...ANY_POLICER }),
      ];
    }),
  );
}

/** Deletes policers that police nothing any more; gone is fine. */
export async function deletePolicers(vpp: VppRequests, policers: readonly VppPolicer[]): Promise<void> {
  const gone = policers.map(({ details: { name } }) =>
    vpp.request(addPolicer, { is_add: false, name, ...ANY_POLICER }),
  );
  await Promise.all(gone);
}

/** Removes the port from its bridge domain, and returns the interfaces that its members need, by VLAN. */
async function makeInterfaces(
  vpp: VppRequests,
  port: WiredPort,
  { members }: Wiring,
  order: Order,
): Promise<ReadonlyMap<number, number>> {
  const subs = new Map(port.subInterfaces.map(({ sub_id, sw_if_index }) => [sub_id, sw_if_index]));
  const kept = new Map([[WHOLE, port.index], ...[...subs].filter(([vlan]) => members.has(vlan))]);
  const surplus = [...subs].filter(([vlan]) => !members.has(vlan));
  const undone = [
    removePolicers(vpp, port),
    ...[...kept.values()].map((sw_if_index) => leaveBridge(order, sw_if_index)),
    ...surplus.map(([, sw_if_index]) => order(deleteSubInterface, { sw_if_index })),
  ];
  const missing = [...members.keys()].filter((vlan) => !kept.has(vlan));
  const made = missing.map(async (vlan_id) => {
    const { sw_if_index } = await order(createVlan, { sw_if_index: port.index, vlan_id });
    return [vlan_id, sw_if_index] as const;
  });
  const [entries] = await Promise.all([Promise.all(made), Promise.all(undone)]);
  return new Map([...kept, ...entries]);
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
  rewrite: Rewrite,
  { bridge: bd_id = 0, group: shg }: Wiring,
): Promise<unknown>[] {
  const joined = order(setBridge, { rx_sw_if_index: sw_if_index, bd_id, port_type: 0, shg, enable: true });
  if (rewrite.vtr_op === REWRITE_NONE) return [joined];
  return [
    joined,
    order(rewriteVlanTag, { sw_if_index, ...rewrite, tag2: 0 }),
    order(filterVlanTag, { sw_if_index, enable_disable: true }),
  ];
}
