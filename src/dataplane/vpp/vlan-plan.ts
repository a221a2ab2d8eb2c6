import type { VlanSettings } from "../../config/port-settings.ts";

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
  /** The interface itself: all frames that no sub-interface takes; absent where it is not in the bridge. */
  readonly whole: Member | undefined;
  /** Sub-interfaces, by the VLAN of the frames that they take. */
  readonly vlans: ReadonlyMap<number, Member>;
}

const ALL: VlanPlan = { whole: { rewrite: undefined }, vlans: new Map() };

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
