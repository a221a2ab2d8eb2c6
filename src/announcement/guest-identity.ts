import type { VlanSettings } from "../config/port-settings.ts";
import type { PortRecord } from "../records/port-record.ts";
import type { Announced } from "./frames.ts";

/** A frame for each tag, several times: a trunk of more VLANs than these is announced untagged only. */
const MOST_TAGS = 256;

/** What there is to tell of the guest behind a port. Addresses that it gave itself are not known to us. */
export function guestIdentity({
  mac,
  ipam,
  settings,
}: Pick<PortRecord, "mac" | "ipam" | "settings">): Announced {
  const given = ipam?.given?.ips ?? [];
  return {
    mac,
    addresses: given.map(({ address }) => address.replace(/\/.*$/, "")),
    vlans: tagsOf(settings.vlan),
  };
}

/** VLANs whose tag the guest writes itself, so that its frames are in no other VLAN of the port's making. */
function tagsOf(vlan: VlanSettings | undefined): readonly number[] {
  if (vlan === undefined || vlan.mode === "access") return [];
  const listed =
    vlan.mode === "dot1q-tunnel" ? vlan.customerVlans : vlan.trunks.filter((id) => id !== vlan.tag);
  const tags = listed.filter((id) => id !== 0);
  return tags.length > MOST_TAGS ? [] : tags;
}
