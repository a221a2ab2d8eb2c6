import { createHash } from "node:crypto";
import type { GuestAddressing } from "../../../protocols/dhcp/guest-addressing.ts";
import { linkLocalAddress } from "../../../protocols/ethernet/frames.ts";
import { applyActions, loadRegister, output, PORT, resubmit } from "../../../protocols/openflow/action.ts";
import type { Flow } from "../../../protocols/openflow/flow.ts";
import { field, type MatchField } from "../../../protocols/openflow/match.ts";
import { dhcpFlows } from "../dhcp/flows.ts";
import { type Identity, readIdentity } from "./identity.ts";

/**
 * Cookies of our flows: 24 bits that say "ours" (the letters `vhu`), then 40 bits of the SHA-256 of the port's name.
 * Port names are unique in a switch. Two of a thousand ports share a cookie once in about two million nodes, and
 * then removing one's flows removes the other's, which the next pass puts back.
 */
const OURS = 0x766875n << 40n;

/** Matches all flows of ours. */
export const OURS_FILTER = { cookie: OURS, cookieMask: 0xffffffn << 40n } as const;

/** The cookie of {@link forwardingFlow}, which is of no port. */
export const FORWARDING_COOKIE = OURS;

/** The cookie of a port's flows. */
export function portCookie(portName: string): bigint {
  return OURS | (createHash("sha256").update(portName).digest().readBigUInt64BE() >> 24n);
}

/** A port with flows of ours. */
export interface SecuredPort {
  /** Its name, by which its flows are recognised; its OpenFlow number is read from the bridge each time. */
  readonly name: string;
  readonly mac: string;
  /**
   * The guest may send from its own MAC and these addresses only, without prefix length; with none, only the link layer is
   * checked. Undefined for a guest that is not restricted.
   */
  readonly addresses?: readonly string[] | undefined;
  /** Its requests for addresses are answered with this. */
  readonly dhcp?: GuestAddressing | undefined;
}

/** A port whose guest is restricted. */
export type RestrictedPort = SecuredPort & { readonly addresses: readonly string[] };

/**
 * A frame goes through stages, each a pass through table 0; two bits of a register say which one it is in, so that
 * after the last one ("passed") our flows do not match it and the bridge's own flows see it as if we were not there.
 */
const STAGE = { link: 0, source: 1, target: 2, passed: 3 } as const;
type Stage = (typeof STAGE)[keyof typeof STAGE];
const STAGE_REGISTER = "reg15";
const STAGE_OFFSET = 30;
const STAGE_MASK = 0xc0000000;

const TABLE = 0;
/** Above what others use; 535 priorities are left above ours for flows that are to override them. */
const PRIORITY = { drop: 65000, other: 65001, deny: 65002, allow: 65003, first: 65004 } as const;

const ETHERTYPE = { ipv4: 0x0800, arp: 0x0806, rarp: 0x8035, ipv6: 0x86dd } as const;
/**
 * Frames whose EtherType is still a tag once the switch has read as many as it may (`vlan-limit`): what they carry
 * would go unseen. With addresses, EtherTypes of no use to them are dropped anyway.
 */
const TAGS = [0x8100, 0x88a8, 0x9100] as const;
const UDP = 17;
const ICMPV6 = 58;
const ICMP = {
  routerSolicitation: 133,
  routerAdvertisement: 134,
  neighbourSolicitation: 135,
  neighbourAdvertisement: 136,
  redirect: 137,
} as const;
/** Reports of multicast listeners, which a guest sends from :: while it checks its address (RFC 3590). */
const LISTENER_REPORTS = [131, 132, 143] as const;
const ANY_IPV4 = Buffer.alloc(4);
const ANY_IPV6 = Buffer.alloc(16);
const NO_OPTION = Buffer.alloc(6);

interface Rule {
  readonly stage: Stage;
  readonly priority: number;
  readonly match: readonly MatchField[];
  /** The stage that it is passed to; undefined drops it. */
  readonly next: Stage | undefined;
}

function rule(stage: Stage, priority: number, match: readonly MatchField[], next?: Stage): Rule {
  return { stage, priority, match, next };
}

/** Drops what no other rule of a stage lets pass. */
const dropRest = (stage: Stage) => rule(stage, PRIORITY.drop, []);

/**
 * All flows of a port.
 * @param ofport OpenFlow number of the port
 * @throws Failure invalid-request
 */
export function portFlows(ofport: number, port: SecuredPort): Flow[] {
  const { name, mac, addresses, dhcp } = port;
  return [
    ...(addresses === undefined ? [] : securityFlows(ofport, { name, mac, addresses })),
    ...(dhcp === undefined ? [] : dhcpFlows(ofport, portCookie(name), dhcp)),
  ];
}

/**
 * The flows that hold a guest to its MAC and addresses; docs/port-security.md has them in words.
 * @param ofport OpenFlow number of the port
 * @throws Failure invalid-request
 */
export function securityFlows(ofport: number, port: RestrictedPort): Flow[] {
  const identity = readIdentity(port.mac, port.addresses);
  const restricted = port.addresses.length > 0;
  const all = [
    ...linkRules(identity.mac, restricted),
    ...(restricted ? [...sourceRules(identity), ...targetRules(identity)] : []),
  ];
  return all.map((rule) => flowOf(ofport, port.name, rule));
}

function flowOf(ofport: number, port: string, { stage, priority, match, next }: Rule): Flow {
  return {
    table: TABLE,
    priority,
    cookie: portCookie(port),
    match: [field("inPort", ofport), field(STAGE_REGISTER, stage * 2 ** STAGE_OFFSET, STAGE_MASK), ...match],
    instructions: applyActions(
      next === undefined ? [] : [loadRegister(STAGE_REGISTER, STAGE_OFFSET, 2, next), resubmit(TABLE)],
    ),
  };
}

/** Drops everything that comes from a port; it is the last of {@link securityFlows} too. */
export function closedFlow(ofport: number, port: string): Flow {
  return flowOf(ofport, port, dropRest(STAGE.link));
}

/** What a bridge does without a controller, as a flow: for bridges whose fail_mode leaves it out. */
export const forwardingFlow: Flow = {
  table: TABLE,
  priority: 1,
  cookie: FORWARDING_COOKIE,
  match: [],
  instructions: applyActions([output(PORT.normal)]),
};

/** What a frame says of the guest's MAC: in its header, in ARP, in the options of neighbour discovery. */
function linkRules(mac: Buffer, restricted: boolean): Rule[] {
  const next = restricted ? STAGE.source : STAGE.passed;
  const own = field("ethSrc", mac);
  const allow = (...match: MatchField[]) => rule(STAGE.link, PRIORITY.allow, [own, ...match], next);
  const deny = (...match: MatchField[]) => rule(STAGE.link, PRIORITY.deny, match);
  const solicitation = icmp(ICMP.neighbourSolicitation);
  const advertisement = icmp(ICMP.neighbourAdvertisement);
  const codeZero = field("icmpv6Code", 0);
  return [
    // The switch reads a message that it cannot parse, such as one with duplicate options, as one with target ::.
    ...[solicitation, advertisement].map((message) =>
      rule(STAGE.link, PRIORITY.first, [...message, codeZero, field("ndTarget", ANY_IPV6)]),
    ),
    allow(ethertype("arp"), field("arpSha", mac)),
    // The announcement of QEMU after a migration: reverse request for its own MAC.
    allow(ethertype("rarp"), field("arpOp", 3), field("arpSha", mac), field("arpTha", mac)),
    ...[mac, NO_OPTION].flatMap((option) => [
      allow(...solicitation, codeZero, field("ndSll", option)),
      allow(...advertisement, codeZero, field("ndTll", option)),
    ]),
    deny(ethertype("arp")),
    deny(ethertype("rarp")),
    deny(...solicitation),
    deny(...advertisement),
    ...(restricted
      ? [
          deny(...icmp(ICMP.routerAdvertisement)),
          deny(...icmp(ICMP.redirect)),
          deny(...udp("ipv4", 67, 68)),
          deny(...udp("ipv6", 547, 546)),
        ]
      : TAGS.map((tag) => deny(field("ethType", tag)))),
    rule(STAGE.link, PRIORITY.other, [own], next),
    dropRest(STAGE.link),
  ];
}

/** Which addresses the guest sends from. Anything but ARP, RARP and IP ends here. */
function sourceRules({ mac, ipv4, ipv6 }: Identity): Rule[] {
  const pass = (...match: MatchField[]) => rule(STAGE.source, PRIORITY.allow, match, STAGE.passed);
  const checkTarget = (...match: MatchField[]) => rule(STAGE.source, PRIORITY.first, match, STAGE.target);
  const unspecified = field("ipv6Src", ANY_IPV6);
  return [
    pass(ethertype("rarp")),
    ...ipv4.flatMap((address) => [
      pass(ethertype("arp"), field("arpSpa", address)),
      pass(ethertype("ipv4"), field("ipv4Src", address)),
    ]),
    // An address probe (RFC 5227 section 1.1) and a DHCP client without a lease (RFC 2131 section 4.1).
    pass(ethertype("arp"), field("arpOp", 1), field("arpSpa", ANY_IPV4)),
    pass(...udp("ipv4", 68, 67), field("ipv4Src", ANY_IPV4), field("ipv4Dst", Buffer.alloc(4, 0xff))),
    ...[linkLocalAddress(mac), ...ipv6].flatMap((address) => [
      pass(ethertype("ipv6"), field("ipv6Src", address)),
      checkTarget(...icmp(ICMP.neighbourAdvertisement), field("ipv6Src", address)),
    ]),
    checkTarget(...icmp(ICMP.neighbourSolicitation), unspecified),
    ...[ICMP.routerSolicitation, ...LISTENER_REPORTS].map((type) => pass(...icmp(type), unspecified)),
    dropRest(STAGE.source),
  ];
}

/** Which addresses it advertises as its own, or checks before it takes them (RFC 4862 section 5.4). */
function targetRules({ mac, ipv6 }: Identity): Rule[] {
  const messages = [icmp(ICMP.neighbourSolicitation), icmp(ICMP.neighbourAdvertisement)];
  const codeZero = field("icmpv6Code", 0);
  return [
    ...[linkLocalAddress(mac), ...ipv6].flatMap((address) =>
      messages.map((message) => {
        const match = [...message, codeZero, field("ndTarget", address)];
        return rule(STAGE.target, PRIORITY.allow, match, STAGE.passed);
      }),
    ),
    dropRest(STAGE.target),
  ];
}

function ethertype(name: keyof typeof ETHERTYPE): MatchField {
  return field("ethType", ETHERTYPE[name]);
}

function icmp(type: number): MatchField[] {
  return [ethertype("ipv6"), field("ipProto", ICMPV6), field("icmpv6Type", type)];
}

function udp(version: "ipv4" | "ipv6", from: number, to: number): MatchField[] {
  return [ethertype(version), field("ipProto", UDP), field("udpSrc", from), field("udpDst", to)];
}
