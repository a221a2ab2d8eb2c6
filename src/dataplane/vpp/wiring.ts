import type { VlanSettings } from "../../config/port-settings.ts";
import type { PortRequest } from "../port.ts";
import { isOfNode } from "./mark.ts";
import { DIRECTIONS, type Direction, isSamePolicer, type Policer, policersOf } from "./policers.ts";
import type { Interface, View, VppPolicer, VppPort } from "./view.ts";

/** Split-horizon group of isolated ports. */
const ISOLATED = 1;
/** Operations of l2_interface_vlan_tag_rewrite. */
const REWRITE_NONE = 0;
export const REWRITE_ADD = 1;
export const REWRITE_ONE_BY_ONE = 5;
export const ADMIN_UP = 1;
/** Of a port that is in no bridge. */
const NO_MEMBERS: VlanPlan = { whole: undefined, vlans: new Map() };
/** All VLANs, by the interface itself. */
const ALL: VlanPlan = { whole: { rewrite: undefined }, vlans: new Map() };

/** What happens to the outermost tag of what comes from the guest; the reverse happens on the way to it. */
export interface TagRewrite {
  /**
   * `add` a tag. `keep` replaces the tag by itself: VPP checks a frame's VLAN before its policers count it only
   * where there is something to rewrite, else the floods of all VLANs would use up every trunk's limit (seen).
   */
  readonly op: "add" | "keep";
  readonly tag: number;
  readonly ethertype: "802.1q" | "802.1ad";
}

/** How an interface or sub-interface of a port stands in the bridge domain. */
export interface Member {
  readonly rewrite: TagRewrite | undefined;
}

/** The members that a port has in its bridge domain; frames keep their VLAN tags inside it. */
export interface VlanPlan {
  /** The interface itself: all frames that are of no sub-interface; absent where it is not in the bridge. */
  readonly whole: Member | undefined;
  /** Sub-interfaces, by the VLAN of their frames. */
  readonly vlans: ReadonlyMap<number, Member>;
}

/** The members that VLAN settings need; undefined for what VPP cannot do. */
export function planVlans(vlan: VlanSettings | undefined): VlanPlan | undefined {
  if (vlan === undefined) return ALL;
  const { mode, trunks, customerVlans, tag } = vlan;
  switch (mode) {
    case "access":
      return { whole: { rewrite: added(tag, "802.1q") }, vlans: new Map() };
    case "trunk":
      return trunks.length === 0 ? ALL : { whole: undefined, vlans: kept(trunks) };
    case "dot1q-tunnel": {
      const rewrite = added(tag, vlan.tunnelEthertype ?? "802.1ad");
      if (customerVlans.length === 0) return { whole: { rewrite }, vlans: new Map() };
      return { whole: undefined, vlans: new Map(customerVlans.map((customer) => [customer, { rewrite }])) };
    }
    case "native-untagged": {
      // "All others" would need a sub-interface for each of 4094 VLANs.
      if (trunks.length === 0) return undefined;
      return {
        whole: { rewrite: added(tag, "802.1q") },
        vlans: kept(trunks.filter((trunk) => trunk !== tag)),
      };
    }
    case "native-tagged":
      // A tag that is added to what comes in is always taken off what goes out.
      return undefined;
  }
}

function added(tag: number | undefined, ethertype: TagRewrite["ethertype"]): TagRewrite | undefined {
  return tag === undefined || tag === 0 ? undefined : { op: "add", tag, ethertype };
}

function kept(vlans: readonly number[]): ReadonlyMap<number, Member> {
  return new Map(vlans.map((tag) => [tag, { rewrite: { op: "keep", tag, ethertype: "802.1q" } }]));
}

/** How a port is tied to the rest of the switch. */
export interface Wiring {
  /** Number of its bridge domain; none for a routed port. */
  readonly bridge: number | undefined;
  readonly group: number;
  readonly vlans: VlanPlan;
  readonly policers: ReadonlyMap<Direction, Policer>;
}

/** The wiring that a request asks for. */
export function wiringOf({ settings, name }: PortRequest, bridge: number | undefined): Wiring {
  const vlans = bridge === undefined ? NO_MEMBERS : planVlans(settings.vlan);
  if (vlans === undefined) throw new TypeError(`the settings of port ${name} are not checked`);
  const group = settings.isolated === true ? ISOLATED : 0;
  return { bridge, group, vlans, policers: policersOf(settings) };
}

/** Our policers on this very interface, or, where `index` is absent, all that were ever made for the port. */
export function policersOn(
  view: Pick<View, "policers">,
  node: string,
  port: string,
  index?: number,
): readonly VppPolicer[] {
  return view.policers.filter(
    (policer) =>
      isOfNode(policer, node) && policer.port === port && (index === undefined || policer.index === index),
  );
}

/** Pure: what of a port's wiring is not as asked, one sentence each. */
export function wiringDifferences(view: View, port: VppPort, node: string, asked: Wiring): string[] {
  const name = `port ${port.name}`;
  const found = memberDifferences(view, port.interface, asked.vlans.whole, asked, name);
  const subs = new Map(port.subInterfaces.map((row) => [row.sub_id, row]));
  for (const [vlan, member] of asked.vlans.vlans) {
    const row = subs.get(vlan);
    if (row === undefined) found.push(`${name} lacks a sub-interface for VLAN ${vlan}`);
    else found.push(...memberDifferences(view, row, member, asked, `VLAN ${vlan} of ${name}`));
  }
  for (const vlan of subs.keys()) {
    if (!asked.vlans.vlans.has(vlan))
      found.push(`${name} has a sub-interface for VLAN ${vlan}, which was not asked`);
  }
  const policers = policersOn(view, node, port.name, port.index);
  for (const direction of DIRECTIONS) {
    const is = policers.find((policer) => policer.direction === direction)?.details;
    const wanted = asked.policers.get(direction);
    const side = direction === "in" ? "sends" : "receives";
    if (is === undefined && wanted !== undefined)
      found.push(`${name} has no limit for what the guest ${side}`);
    else if (is !== undefined && wanted === undefined) {
      found.push(`${name} limits what the guest ${side}, no limit was asked`);
    } else if (is !== undefined && wanted !== undefined && !isSamePolicer(is, wanted)) {
      found.push(`${name} has another limit for what the guest ${side} than was asked`);
    }
  }
  return found;
}

function memberDifferences(
  view: View,
  row: Interface,
  asked: Member | undefined,
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
  if ((asked !== undefined || bridge === undefined) && (row.flags & ADMIN_UP) === 0)
    found.push(`${what} is not up`);
  const rewrite = describeRewrite(rewriteOf(row));
  const wantedRewrite = describeRewrite(asked?.rewrite);
  if (rewrite !== wantedRewrite) found.push(`${what} ${rewrite}, asked was that it ${wantedRewrite}`);
  return found;
}

function rewriteOf(row: Interface): TagRewrite | undefined | "other" {
  if (row.vtr_op === REWRITE_NONE) return undefined;
  if (row.vtr_op !== REWRITE_ADD && row.vtr_op !== REWRITE_ONE_BY_ONE) return "other";
  return {
    op: row.vtr_op === REWRITE_ADD ? "add" : "keep",
    tag: row.vtr_tag1,
    ethertype: row.vtr_push_dot1q === 0 ? "802.1ad" : "802.1q",
  };
}

function describeRewrite(rewrite: TagRewrite | undefined | "other"): string {
  if (rewrite === undefined) return "leaves tags alone";
  if (rewrite === "other") return "rewrites tags in another way";
  return `${rewrite.op === "add" ? "adds" : "keeps"} the ${rewrite.ethertype} tag ${rewrite.tag}`;
}
