import { isIPv4 } from "node:net";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ipv4Bytes, ipv6Bytes } from "../../addresses/host-address.ts";
import {
  BROADCAST_MAC,
  type Ends,
  icmpv6Frame,
  linkLocalAddress,
  macBytes,
  readPacket,
  udpFrame,
  words16,
} from "../ethernet/frames.ts";
import { answerGuest } from "./answer-guest.ts";
import { domainName, type GuestAddressing, SERVER_MAC } from "./guest-addressing.ts";

const MAC = "02:00:00:00:00:01";
const OWN = "10.9.0.5";
const OWN6 = "fd09::5";
const guest: GuestAddressing = {
  mac: MAC,
  mtu: 1450,
  addresses: [{ address: `${OWN}/24`, gateway: "10.9.0.254" }, { address: `${OWN6}/64` }],
  routes: [{ dst: "192.168.0.0/17", gw: "10.9.0.253" }, { dst: "10.200.0.0/16" }, { dst: "fd10::/48" }],
  dns: {
    nameservers: ["10.9.0.53", "fd09::53"],
    domain: "one.example",
    search: ["one.example", "two.example"],
  },
};
const hex = (bytes: Uint8Array | undefined) => Buffer.from(bytes ?? []).toString("hex");
const bytes = (text: string) => (isIPv4(text) ? ipv4Bytes(text) : ipv6Bytes(text));

function udp(
  ends: Partial<Ends> & Pick<Ends, "from" | "to">,
  ports: readonly [number, number],
  payload: Buffer,
) {
  const [portFrom, portTo] = ports;
  return udpFrame({ macFrom: macBytes(MAC), macTo: BROADCAST_MAC, ...ends, portFrom, portTo, payload });
}

interface Dhcpv4Fields {
  readonly type: number;
  readonly options?: readonly (readonly [number, Buffer])[];
  readonly client?: string;
  readonly hardware?: string;
  readonly relay?: string;
  readonly flags?: number;
  readonly ends?: Partial<Ends>;
}

/** A client's frame, as dhclient and udhcpc send it. */
function dhcpv4({ type, options = [], ends = {}, ...fields }: Dhcpv4Fields): Buffer {
  const { client = "0.0.0.0", hardware = MAC, relay = "0.0.0.0", flags = 0 } = fields;
  const payload = Buffer.concat([
    Buffer.from([1, 1, 6, 0, 0xde, 0xad, 0xbe, 0xef, 0, 0]),
    words16(flags),
    bytes(client),
    Buffer.alloc(8),
    bytes(relay),
    macBytes(hardware),
    Buffer.alloc(10 + 64 + 128),
    Buffer.from([99, 130, 83, 99, 53, 1, type]),
    ...options.flatMap(([code, data]) => [Buffer.from([code, data.length]), data]),
    Buffer.from([255, 0, 0, 0]),
  ]);
  return udp({ from: bytes(client), to: bytes("255.255.255.255"), ...ends }, [68, 67], payload);
}

/** Everything that an answer says; options as hexadecimal digits by their code. */
function readDhcpv4(frame: Buffer | undefined) {
  if (frame === undefined) return undefined;
  const packet = readPacket(frame);
  if (packet?.kind !== "udp") throw new Error("no UDP");
  const { payload } = packet;
  const options: Record<number, string> = {};
  for (let at = 240; payload[at] !== 255; at += 2 + (payload[at + 1] ?? 0)) {
    const code = payload[at] ?? 0;
    options[code] = (options[code] ?? "") + hex(payload.subarray(at + 2, at + 2 + (payload[at + 1] ?? 0)));
  }
  return {
    ...{ to: [...packet.to].join("."), from: [...packet.from].join("."), macTo: hex(packet.macTo) },
    ...{ ports: [packet.portFrom, packet.portTo], op: payload[0], transaction: hex(payload.subarray(4, 8)) },
    ...{ yours: [...payload.subarray(16, 20)].join("."), type: Number(`0x${options[53]}`), options },
  };
}

const ask4 = (fields: Dhcpv4Fields, of = guest) => readDhcpv4(answerGuest(dhcpv4(fields), of));
const requested = (address: string) => [50, bytes(address)] as const;
const server = (address = "10.9.0.254") => [54, bytes(address)] as const;

describe("a guest that asks by DHCP", () => {
  it("is offered and given its address with all that belongs to it, without a login (requirement 9 of IPAM: a way into the guest)", () => {
    const offer = ask4({ type: 1 });
    expect(offer).toMatchObject({
      ...{ type: 2, op: 2, yours: OWN, to: OWN, from: "10.9.0.254", ports: [67, 68] },
      ...{ transaction: "deadbeef", macTo: hex(macBytes(MAC)) },
    });
    const given = ask4({ type: 3, options: [requested(OWN), server()] });
    expect(given).toEqual({ ...offer, type: 5, options: { ...offer?.options, 53: "05" } });
    expect(given?.options).toMatchObject({
      1: "ffffff00",
      6: hex(bytes("10.9.0.53")),
      15: Buffer.from("one.example").toString("hex"),
      26: "05aa",
      54: hex(bytes("10.9.0.254")),
      119: hex(Buffer.from("\x03one\x07example\0\x03two\x07example\0")),
      // 192.168.0.0/17 by .253, 10.200.0.0/16 by the gateway.
      121: `11c0a800${hex(bytes("10.9.0.253"))}100ac8${hex(bytes("10.9.0.254"))}`,
    });
    const [lifetime = 0, rebinding = 0, renewal = 0] = [51, 59, 58].map((code) =>
      Number(`0x${given?.options[code]}`),
    );
    expect(rebinding, "without a daemon for a day it keeps its address").toBeLessThanOrEqual(
      lifetime - 2 * 86_400,
    );
    expect(renewal).toBeLessThan(rebinding);
  });

  it("gets a default route only where IPAM gave one, for clients with and without classless routes (requirement 8 of IPAM)", () => {
    expect(ask4({ type: 1 })?.options[3]).toBeUndefined();
    const addressed = { ...guest, routes: [{ dst: "0.0.0.0/0" }] };
    expect(ask4({ type: 1 }, addressed)?.options).toMatchObject({ 3: hex(bytes("10.9.0.254")) });
    expect(ask4({ type: 1 }, addressed)?.options[121]).toBeUndefined();
    const both = { ...guest, routes: [{ dst: "0.0.0.0/0" }, { dst: "10.200.0.0/16" }] };
    const gateway = hex(bytes("10.9.0.254"));
    expect(ask4({ type: 1 }, both)?.options).toMatchObject({
      3: gateway,
      121: `00${gateway}100ac8${gateway}`,
    });
  });

  it("reaches a router outside of its network directly", () => {
    const single = {
      ...guest,
      addresses: [{ address: `${OWN}/32`, gateway: "10.1.1.1" }],
      routes: [{ dst: "0.0.0.0/0" }],
    };
    const router = hex(bytes("10.1.1.1"));
    expect(ask4({ type: 1 }, single)?.options).toMatchObject({
      1: "ffffffff",
      121: `20${router}0000000000${router}`,
    });
  });

  it.each([
    ["renews", { type: 3, client: OWN }, { type: 5, to: OWN, yours: OWN }],
    ["boots again with its address", { type: 3, options: [requested(OWN)] }, { type: 5, yours: OWN }],
    [
      "comes with another address",
      { type: 3, options: [requested("10.9.0.6")] },
      { type: 6, yours: "0.0.0.0", to: "255.255.255.255" },
    ],
    ["renews another address", { type: 3, client: "10.9.0.6" }, { type: 6, to: "255.255.255.255" }],
    ["cannot receive unicast yet", { type: 1, flags: 0x8000 }, { type: 2, to: "255.255.255.255" }],
    ["only wants to know the rest", { type: 8, client: OWN }, { type: 5, to: OWN, yours: "0.0.0.0" }],
    [
      "took another server's offer",
      { type: 3, options: [requested("10.9.0.6"), server("10.9.0.9")] },
      undefined,
    ],
    ["declines", { type: 4, options: [requested(OWN), server()] }, undefined],
    ["releases", { type: 7, client: OWN }, undefined],
    ["speaks for another MAC", { type: 1, hardware: "02:00:00:00:00:02" }, undefined],
    ["sends from another MAC", { type: 1, ends: { macFrom: macBytes("02:00:00:00:00:02") } }, undefined],
    ["relays for others", { type: 1, relay: OWN }, undefined],
  ] satisfies [string, Dhcpv4Fields, object | undefined][])("%s", (_, fields, answer) => {
    const said = ask4(fields);
    if (answer === undefined) expect(said).toBeUndefined();
    else expect(said).toMatchObject(answer);
    if (said?.type === 6) expect(Object.keys(said.options)).toEqual(["53", "54"]);
    if (fields.type === 8) expect(said?.options[51]).toBeUndefined();
  });

  it("gets what its buffer holds, the most important first", () => {
    const routes = Array.from({ length: 100 }, (_, index) => ({ dst: `10.${index}.0.0/16` }));
    const options = ask4({ type: 1 }, { ...guest, routes })?.options;
    expect(options).toMatchObject({ 1: "ffffff00", 26: "05aa" });
    expect(options?.[121], "700 bytes of routes do not fit into 576").toBeUndefined();
    const large = ask4({ type: 1, options: [[57, words16(1500)]] }, { ...guest, routes })?.options;
    expect(large?.[121]).toHaveLength(100 * 7 * 2);
  });

  it("is not answered without an IPv4 address", () => {
    expect(ask4({ type: 1 }, { ...guest, addresses: [{ address: `${OWN6}/64` }] })).toBeUndefined();
  });
});

const LINK_LOCAL = linkLocalAddress(macBytes(MAC));
const CLIENT_ID = Buffer.from("00030001020000000001", "hex");
const SERVER_ID = Buffer.concat([words16(3, 1), SERVER_MAC]);
const option6 = (code: number, ...data: readonly Buffer[]) => {
  const all = Buffer.concat(data);
  return Buffer.concat([words16(code, all.length), all]);
};
const iaAddress = (address: string) => option6(5, bytes(address), Buffer.alloc(8));
const group = (iaid: number, ...inner: readonly Buffer[]) =>
  option6(3, words16(0, iaid, 0, 0, 0, 0), ...inner);

function dhcpv6(type: number, ...options: readonly Buffer[]): Buffer {
  const payload = Buffer.concat([Buffer.from([type, 1, 2, 3]), ...options]);
  return udp({ from: LINK_LOCAL, to: bytes("ff02::1:2") }, [546, 547], payload);
}

/** Type and options of an answer, by their code; groups of addresses with their options. */
function ask6(frame: Buffer, of = guest) {
  const packet = answerGuest(frame, of);
  const read = packet && readPacket(packet);
  if (read === undefined) return undefined;
  if (read.kind !== "udp") throw new Error("no UDP");
  expect([hex(read.to), read.portFrom, read.portTo]).toEqual([hex(LINK_LOCAL), 547, 546]);
  expect(hex(read.payload.subarray(1, 4))).toBe("010203");
  const parse = (data: Buffer): [number, string][] => {
    const list: [number, string][] = [];
    for (let at = 0; at < data.length; at += 4 + data.readUInt16BE(at + 2)) {
      list.push([data.readUInt16BE(at), hex(data.subarray(at + 4, at + 4 + data.readUInt16BE(at + 2)))]);
    }
    return list;
  };
  const options = parse(read.payload.subarray(4));
  const groups = options
    .filter(([code]) => code === 3)
    .map(([, data]) => ({ iaid: data.slice(0, 8), inner: parse(Buffer.from(data.slice(24), "hex")) }));
  return { type: read.payload[0], options: Object.fromEntries(options), groups };
}

const ids = [option6(1, CLIENT_ID), option6(2, SERVER_ID)];
const WEEK = "00093a80";
const given = { iaid: "00000007", inner: [[5, `${hex(bytes(OWN6))}${WEEK}${WEEK}`]] };

describe("a guest that asks by DHCPv6", () => {
  it("is offered and given its address, name servers and search list", () => {
    const asked = group(7);
    const offer = ask6(dhcpv6(1, option6(1, CLIENT_ID), asked));
    expect(offer).toMatchObject({ type: 2, groups: [given] });
    expect(offer?.options).toMatchObject({
      1: hex(CLIENT_ID),
      2: hex(SERVER_ID),
      23: hex(bytes("fd09::53")),
      24: hex(Buffer.concat([domainName("one.example") ?? "", domainName("two.example") ?? ""] as Buffer[])),
    });
    expect(ask6(dhcpv6(3, ...ids, asked))).toMatchObject({ type: 7, groups: [given] });
    expect(ask6(dhcpv6(1, option6(1, CLIENT_ID), option6(14), asked))).toMatchObject({
      type: 7,
      options: { 14: "" },
      groups: [given],
    });
  });

  it("renews and rebinds, and loses an address that is not its own", () => {
    const asked = group(7, iaAddress(OWN6), iaAddress("fd09::6"));
    const ended = [5, `${hex(bytes("fd09::6"))}${"0".repeat(16)}`];
    const groups = [{ ...given, inner: [...given.inner, ended] }];
    expect(ask6(dhcpv6(5, ...ids, asked))).toMatchObject({ type: 7, groups });
    expect(ask6(dhcpv6(6, option6(1, CLIENT_ID), asked))).toMatchObject({ type: 7, groups });
  });

  it("confirms its address after a change of its link, and learns that another is wrong", () => {
    const confirm = (address: string) => ask6(dhcpv6(4, option6(1, CLIENT_ID), group(7, iaAddress(address))));
    expect(confirm(OWN6)?.options[13]).toBe("0000");
    expect(confirm("fd08::5")?.options[13]).toBe("0004");
  });

  it("gets one group of addresses", () => {
    const answer = ask6(dhcpv6(1, option6(1, CLIENT_ID), group(7), group(8)));
    expect(answer?.groups).toEqual([given, { iaid: "00000008", inner: [[13, "0002"]] }]);
  });

  it.each([
    ["a request for another server", dhcpv6(3, option6(1, CLIENT_ID), option6(2, CLIENT_ID), group(7))],
    ["a request for no server", dhcpv6(3, option6(1, CLIENT_ID), group(7))],
    ["a solicitation for a server", dhcpv6(1, ...ids, group(7))],
    ["a solicitation without a client", dhcpv6(1, group(7))],
    ["a relay's message", dhcpv6(12, option6(1, CLIENT_ID))],
    ["an option that ends too late", dhcpv6(1, option6(1, CLIENT_ID), words16(3, 40, 0))],
  ])("is not answered: %s", (_, frame) => {
    expect(ask6(frame)).toBeUndefined();
  });

  it("learns that a release succeeded, and the rest without addresses", () => {
    expect(ask6(dhcpv6(8, ...ids, group(7, iaAddress(OWN6))))?.options[13]).toBe("0000");
    expect(ask6(dhcpv6(11))).toMatchObject({ type: 7, groups: [], options: { 23: hex(bytes("fd09::53")) } });
  });
});

describe("a guest that solicits routers", () => {
  const solicit = (from: Buffer, type = 133) =>
    icmpv6Frame(
      { macFrom: macBytes(MAC), macTo: macBytes("33:33:00:00:00:02"), from, to: bytes("ff02::2") },
      Buffer.from([type, 0, 0, 0, 0, 0, 0, 0]),
    );
  const ask = (frame: Buffer, of = guest) => {
    const answer = answerGuest(frame, of);
    const packet = answer && readPacket(answer);
    return packet?.kind === "icmpv6" ? packet : undefined;
  };

  it("learns its network, the MTU and that addresses come by DHCPv6, from no router", () => {
    const packet = ask(solicit(LINK_LOCAL));
    expect([hex(packet?.to), hex(packet?.macTo)]).toEqual([hex(LINK_LOCAL), hex(macBytes(MAC))]);
    const said = hex(packet?.message);
    expect(said.slice(0, 4) + said.slice(8, 16)).toBe("860040c00000");
    expect(said.slice(32)).toBe(
      `05010000000005aa03044080${"ffffffff".repeat(2)}00000000${hex(bytes("fd09::"))}`,
    );
    expect(hex(ask(solicit(bytes("::")))?.to)).toBe(hex(bytes("ff02::1")));
  });

  it("is not answered without an IPv6 address, nor in other messages", () => {
    expect(ask(solicit(LINK_LOCAL), { ...guest, addresses: [{ address: `${OWN}/24` }] })).toBeUndefined();
    expect(ask(solicit(LINK_LOCAL, 135))).toBeUndefined();
  });
});

describe("whatever a guest sends", () => {
  const frames = [
    dhcpv4({ type: 1, options: [requested(OWN), [57, words16(1500)]] }),
    dhcpv4({ type: 3, options: [requested(OWN), server()] }),
    dhcpv6(1, option6(1, CLIENT_ID), group(7, iaAddress(OWN6))),
    dhcpv6(5, ...ids, group(7, iaAddress("fd09::6")), group(8)),
  ];

  it("is answered with a frame to its own MAC that a network can carry, or not at all", () => {
    const arbitrary = fc.uint8Array({ maxLength: 700 }).map((data) => Buffer.from(data));
    const change = fc.tuple(fc.nat(), fc.nat({ max: 255 }));
    const changed = fc
      .tuple(fc.constantFrom(...frames), fc.array(change, { maxLength: 6 }), fc.nat({ max: 400 }))
      .map(([frame, changes, cut]) => {
        const copy = Buffer.from(frame.subarray(0, Math.max(0, frame.length - (cut > 300 ? cut - 300 : 0))));
        // The addresses of the frame stay, so that the parsers behind them are reached.
        for (const [at, value] of changes) {
          if (copy.length > 42) copy[42 + (at % (copy.length - 42))] = value;
        }
        return copy;
      });
    fc.assert(
      fc.property(fc.oneof(arbitrary, changed, changed), (frame) => {
        const answer = answerGuest(frame, guest);
        if (answer === undefined) return;
        expect(hex(answer.subarray(0, 6))).toBe(hex(macBytes(MAC)));
        expect(answer.length).toBeLessThanOrEqual(1514);
        expect(readPacket(answer)).toBeDefined();
      }),
      { numRuns: 2_000 },
    );
  });
});
