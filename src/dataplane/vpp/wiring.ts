import type { VlanSettings } from "../../config/port-settings.ts";
import type { Asked } from "../../protocols/vpp-api/call.ts";
import type { rewriteVlanTag } from "../../protocols/vpp-api/messages.ts";
import type { PortRequest } from "../port.ts";
import { isOfNode } from "./mark.ts";
import { DIRECTIONS, type Direction, isSamePolicer, type Policer, policersOf } from "./policers.ts";
import type { Interface, View, VppPolicer, VppPort } from "./view.ts";

/** Split-horizon group of isolated ports. */
const ISOLATED = 1;
/** Operations of l2_interface_vlan_tag_rewrite. */
export const REWRITE_NONE = 0;
const REWRITE_ADD = 1;
const REWRITE_ONE_BY_ONE = 5;
export const ADMIN_UP = 1;
/** Stands for the interface itself where members are named by their VLANs. */
export const WHOLE = -1;

/**
 * What VPP does to the outermost tag of what comes from the guest; the reverse happens on the way to it. A tag that is
 * to stay is replaced by itself: VPP checks a frame's VLAN before its policers count it only where there is something
 * to rewrite, else the floods of all VLANs would use up every trunk's limit (seen).
 */
export type Rewrite = Pick<Asked<typeof rewriteVlanTag>, "vtr_op" | "push_dot1q" | "tag1">;

/**
 * The members that a port has in its bridge domain, by the VLAN of their frames; {@link WHOLE} has all frames that are
 * of no sub-interface. Frames keep their VLAN tags inside the bridge domain.
 */
type Members = ReadonlyMap<number, Rewrite>;

const UNCHANGED: Rewrite = { vtr_op: REWRITE_NONE, push_dot1q: 0, tag1: 0 };

/** The members that VLAN settings need; undefined for what VPP cannot do. */
export function planVlans(vlan: VlanSettings | undefined): Members | undefined {
  if (vlan === undefined) return new Map([[WHOLE, UNCHANGED]]);
  const { mode, trunks, customerVlans, tag, tunnelEthertype } = vlan;
  switch (mode) {
    case "access":
      return new Map([[WHOLE, added(tag, "802.1q")]]);
    case "trunk":
      return new Map(trunks.length === 0 ? [[WHOLE, UNCHANGED]] : kept(trunks));
    case "dot1q-tunnel": {
      const rewrite = added(tag, tunnelEthertype ?? "802.1ad");
      return new Map((customerVlans.length === 0 ? [WHOLE] : customerVlans).map((from) => [from, rewrite]));
    }
    case "native-untagged":
      // "All others" would need a sub-interface for each of 4094 VLANs.
      if (trunks.length === 0) return undefined;
      return new Map([[WHOLE, added(tag, "802.1q")], ...kept(trunks.filter((trunk) => trunk !== tag))]);
    case "native-tagged":
      // A tag that is added to what comes in is always taken off what goes out.
      return undefined;
  }
}

function added(tag: number | undefined, ethertype: "802.1q" | "802.1ad"): Rewrite {
  if (tag === undefined || tag === 0) return UNCHANGED;
  return { vtr_op: REWRITE_ADD, push_dot1q: ethertype === "802.1q" ? 1 : 0, tag1: tag };
}

function kept(vlans: readonly number[]): (readonly [vlan: number, Rewrite])[] {
  return vlans.map((tag1) => [tag1, { vtr_op: REWRITE_ONE_BY_ONE, push_dot1q: 1, tag1 }]);
}

/** How a port is tied to the rest of the switch. */
export interface Wiring {
  /** Number of its bridge domain; a routed port has none, and no members. */
  readonly bridge: number | undefined;
  readonly group: number;
  readonly members: Members;
  readonly policers: ReadonlyMap<Direction, Policer>;
}

/** The wiring that a request asks for. */
export function wiringOf({ settings, name }: PortRequest, bridge: number | undefined): Wiring {
  const members = bridge === undefined ? new Map() : planVlans(settings.vlan);
  if (members === undefined) throw new TypeError(`the settings of port ${name} are not checked`);
  return {
    bridge,
    group: settings.isolated === true ? ISOLATED : 0,
    members,
    policers: policersOf(settings),
  };
}

/** All policers that were ever made for a port, also on an interface that is gone. */
export function policersOn(view: Pick<View, "policers">, node: string, port: string): readonly VppPolicer[] {
  return view.policers.filter((policer) => policer.port === port && isOfNode(policer, node));
}

/** Pure: what of a port's wiring is not as asked, one sentence each. */
export function wiringDifferences(view: View, port: VppPort, node: string, asked: Wiring): string[] {
  const name = `port ${port.name}`;
  const subs = new Map(port.subInterfaces.map((row) => [row.sub_id, row]));
  const found = memberDifferences(view, port.interface, asked.members.get(WHOLE), asked, name);
  for (const [vlan, rewrite] of asked.members) {
    const row = subs.get(vlan);
    if (row !== undefined)
      found.push(...memberDifferences(view, row, rewrite, asked, `VLAN ${vlan} of ${name}`));
    else if (vlan !== WHOLE) found.push(`${name} lacks a sub-interface for VLAN ${vlan}`);
  }
  for (const vlan of subs.keys()) {
    if (!asked.members.has(vlan)) {
      found.push(`${name} has a sub-interface for VLAN ${vlan}, which was not asked`);
    }
  }
  const policers = policersOn(view, node, port.name).filter(({ index }) => index === port.index);
  for (const direction of DIRECTIONS) {
    const is = policers.find((policer) => policer.direction === direction)?.details;
    const wanted = asked.policers.get(direction);
    const side = direction === "in" ? "sends" : "receives";
    if (is === undefined) {
      if (wanted !== undefined) found.push(`${name} has no limit for what the guest ${side}`);
    } else if (wanted === undefined) {
      found.push(`${name} limits what the guest ${side}, no limit was asked`);
    } else if (!isSamePolicer(is, wanted)) {
      found.push(`${name} has another limit for what the guest ${side} than was asked`);
    }
  }
  return found;
}

function memberDifferences(
  view: View,
  row: Interface,
  asked: Rewrite | undefined,
  { bridge, group }: Wiring,
  what: string,
): string[] {
  const found: string[] = [];
  const is = view.members.get(row.sw_if_index);
  const wanted = asked === undefined ? undefined : bridge;
  if (is?.bridge !== wanted) {
    found.push(`${what} is in bridge domain ${is?.bridge ?? "none"}, asked was ${wanted ?? "none"}`);
  }
  if (is !== undefined && asked !== undefined && is.group !== group) {
    found.push(`${what} has split-horizon group ${is.group}, asked was ${group}`);
  }
  if ((asked !== undefined || bridge === undefined) && (row.flags & ADMIN_UP) === 0) {
    found.push(`${what} is not up`);
  }
  const { vtr_op, vtr_push_dot1q: push_dot1q, vtr_tag1: tag1 } = row;
  const rewrite = describeRewrite({ vtr_op, push_dot1q, tag1 });
  const wantedRewrite = describeRewrite(asked ?? UNCHANGED);
  if (rewrite !== wantedRewrite) found.push(`${what} ${rewrite}, asked was that it ${wantedRewrite}`);
  return found;
}

/** Equal texts for what has the same effect. */
function describeRewrite({ vtr_op, push_dot1q, tag1 }: Rewrite): string {
  const tag = `the ${push_dot1q === 0 ? "802.1ad" : "802.1q"} tag ${tag1}`;
  if (vtr_op === REWRITE_NONE) return "leaves tags alone";
  if (vtr_op === REWRITE_ADD) return `adds ${tag}`;
  return vtr_op === REWRITE_ONE_BY_ONE ? `keeps ${tag}` : "rewrites tags in another way";
}
