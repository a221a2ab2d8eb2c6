import { familiesOf, PORTS } from "../../../protocols/dhcp/answer-guest.ts";
import type { GuestAddressing } from "../../../protocols/dhcp/guest-addressing.ts";
import { ETHERTYPE, macBytes, PROTOCOL } from "../../../protocols/ethernet/frames.ts";
import { applyActions, loadRegister, resubmit, toController } from "../../../protocols/openflow/action.ts";
import type { Flow } from "../../../protocols/openflow/flow.ts";
import { field, type MatchField } from "../../../protocols/openflow/match.ts";
import { CONTROLLER_ID } from "../../../protocols/openflow/subscription.ts";

const TABLE = 0;
/** Above port security, which would pass these frames on. */
const PRIORITY = 65005;
/** Bit of the register of port security that says that a solicitation was sent to the controller. */
const SENT = { register: "reg15", bit: 29 } as const;
const ROUTER_SOLICITATION = 133;
const UNTAGGED = 0;

/** Cookie of the flows of a pause: the letters `vhp`. Nothing looks for them, they end by themselves. */
const PAUSE_COOKIE = 0x766870n << 40n;

/**
 * The flows that send a guest's requests for addresses to the daemon, and only there: others never see them, and no
 * other server answers. A router solicitation goes its way too, so that the network's routers answer it. Frames of other
 * MACs, and with a tag, are not these addresses' and go their way.
 * @param ofport OpenFlow number of the port
 */
export function dhcpFlows(ofport: number, cookie: bigint, guest: GuestAddressing): Flow[] {
  return flows(ofport, guest, { priority: PRIORITY, cookie, actions: [toController(CONTROLLER_ID)] });
}

/** The flows that, for a while, drop the requests of a guest that sends too many, before they cost the daemon anything. */
export function pauseFlows(ofport: number, guest: GuestAddressing): Flow[] {
  return flows(ofport, guest, { priority: PRIORITY + 1, cookie: PAUSE_COOKIE, actions: [] });
}

function flows(
  ofport: number,
  guest: GuestAddressing,
  { priority, cookie, actions }: Pick<Flow, "priority" | "cookie"> & { readonly actions: readonly Buffer[] },
): Flow[] {
  const has = familiesOf(guest);
  const own = [
    field("inPort", ofport),
    field("vlanVid", UNTAGGED),
    field("ethSrc", macBytes(guest.mac)),
  ] as const;
  const flow = (match: readonly MatchField[], all = actions): Flow => ({
    ...{ table: TABLE, priority, cookie, match: [...own, ...match], instructions: applyActions(all) },
  });
  const { register, bit } = SENT;
  return [
    ...(has.ipv4 ? [flow(requests("ipv4"))] : []),
    ...(has.ipv6
      ? [
          flow(requests("ipv6")),
          flow(
            [
              field(register, 0, 2 ** bit),
              field("ethType", ETHERTYPE.ipv6),
              field("ipProto", PROTOCOL.icmpv6),
              field("icmpv6Type", ROUTER_SOLICITATION),
            ],
            [...actions, loadRegister(register, bit, 1, 1), resubmit(TABLE)],
          ),
        ]
      : []),
  ];
}

function requests(family: "ipv4" | "ipv6"): MatchField[] {
  const { client, server } = PORTS[family];
  return [
    field("ethType", ETHERTYPE[family]),
    field("ipProto", PROTOCOL.udp),
    field("udpSrc", client),
    field("udpDst", server),
  ];
}
