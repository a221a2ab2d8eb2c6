import type { PortRequest } from "../port.ts";
import { isOfNode } from "./mark.ts";
import { DIRECTIONS, type Direction, isSamePolicer, type Policer, policersOf } from "./policers.ts";
import type { Interface, View, VppPolicer, VppPort } from "./view.ts";
import { type Member, planVlans, type TagRewrite, type VlanPlan } from "./vlan-plan.ts";

/** Split-horizon group of isolated ports. */
const ISOLATED = 1;
/** Operations of l2_interface_vlan_tag_rewrite. */
const REWRITE_NONE = 0;
export const REWRITE_ADD = 1;
export const REWRITE_ONE_BY_ONE = 5;
export const ADMIN_UP = 1;
const NO_MEMBERS: VlanPlan = { whole: undefined, vlans: new Map() };

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
  if (vlans === undefined) throw new TypeError(`the settings of port ${name} are checked before`);
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
      found.push(`${name} has a sub-interface for VLAN ${vlan}, none was asked`);
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
