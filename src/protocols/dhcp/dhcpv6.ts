// DHCPv6 for one guest: RFC 8415, options of RFC 3646.
import { ipv6Bytes } from "../../addresses/host-address.ts";
import { words16 } from "../ethernet/frames.ts";
import { type GuestAddressing, LEASE, SERVER_MAC, searchList } from "./guest-addressing.ts";

const TYPE = {
  ...{ solicit: 1, advertise: 2, request: 3, confirm: 4, renew: 5, rebind: 6, reply: 7 },
  ...{ release: 8, decline: 9, information: 11 },
} as const;
const OPTION = {
  ...{ client: 1, server: 2, addresses: 3, address: 5, status: 13, rapidCommit: 14 },
  ...{ nameservers: 23, search: 24 },
} as const;
const STATUS = { success: 0, noAddresses: 2, notOnLink: 4 } as const;
/** Longest identifier of a client, with its type (RFC 8415 section 11.1). */
const IDENTIFIER_MAX = 130;
const HEADER_BYTES = 4;
const ADDRESSES_HEADER_BYTES = 12;
const ADDRESS_BYTES = 24;
/** Most groups of addresses that are answered; a client has one for each of its interfaces. */
const GROUPS_MAX = 4;

/** This server's identifier: a DUID-LL (RFC 8415 section 11.4), the same on all nodes. */
const SERVER_ID = Buffer.concat([words16(3, 1), SERVER_MAC]);

/** Messages that name the server they are for; others must not (RFC 8415 section 16). */
const TO_THIS_SERVER: readonly number[] = [TYPE.request, TYPE.renew, TYPE.release, TYPE.decline];
const WITH_ADDRESSES: readonly number[] = [TYPE.solicit, TYPE.request, TYPE.renew, TYPE.rebind];

interface Option {
  readonly code: number;
  readonly data: Buffer;
}

/**
 * The message that answers a guest's; undefined where it sent no request that this server has to answer.
 * @param bytes whatever the guest sent to the server's port
 */
export function answerDhcpv6(bytes: Buffer, guest: GuestAddressing): Buffer | undefined {
  const options = bytes.length < HEADER_BYTES ? undefined : readOptions(bytes.subarray(HEADER_BYTES));
  if (options === undefined) return undefined;
  const type = bytes.readUInt8(0);
  const client = dataOf(options, OPTION.client);
  const server = dataOf(options, OPTION.server);
  if (client === undefined ? type !== TYPE.information : client.length > IDENTIFIER_MAX) return undefined;
  if (TO_THIS_SERVER.includes(type) ? server?.equals(SERVER_ID) !== true : server !== undefined) {
    return undefined;
  }
  const answered = answerOptions(type, options, guest);
  if (answered === undefined) return undefined;
  const isFinal = type !== TYPE.solicit || dataOf(options, OPTION.rapidCommit) !== undefined;
  return Buffer.concat([
    Buffer.from([isFinal ? TYPE.reply : TYPE.advertise]),
    bytes.subarray(1, HEADER_BYTES), // the transaction
    ...(client === undefined ? [] : [option(OPTION.client, client)]),
    option(OPTION.server, SERVER_ID),
    ...(isFinal && type === TYPE.solicit ? [option(OPTION.rapidCommit)] : []),
    ...answered,
  ]);
}

function answerOptions(
  type: number,
  options: readonly Option[],
  guest: GuestAddressing,
): readonly Buffer[] | undefined {
  const own = guest.addresses.flatMap(({ address }) =>
    address.includes(":") ? [ipv6Bytes(address.replace(/\/.*/, ""))] : [],
  );
  const groups = options.filter(({ code, data }) => code === OPTION.addresses && isGroup(data));
  if (WITH_ADDRESSES.includes(type)) {
    const given = groups
      .slice(0, GROUPS_MAX)
      .map(({ data }, index) => (index === 0 ? giveAddresses(data, own) : refuseAddresses(data)));
    return [...given, ...networkOptions(guest)];
  }
  if (type === TYPE.information) return networkOptions(guest);
  if (type === TYPE.release || type === TYPE.decline) return [status(STATUS.success)];
  if (type !== TYPE.confirm) return undefined;
  const asked = groups.flatMap(({ data }) => addressesIn(data));
  if (asked.length === 0) return undefined;
  return [status(asked.every((one) => isIn(own, one)) ? STATUS.success : STATUS.notOnLink)];
}

/** The guest's addresses; those that it has from elsewhere end at once. */
function giveAddresses(group: Buffer, own: readonly Buffer[]): Buffer {
  const others = addressesIn(group).filter((one) => !isIn(own, one));
  return option(
    OPTION.addresses,
    group.subarray(0, 4),
    words32(LEASE.renewal, LEASE.rebinding),
    ...own.map((one) => option(OPTION.address, one, words32(LEASE.lifetime, LEASE.lifetime))),
    ...others.map((one) => option(OPTION.address, one, words32(0, 0))),
  );
}

function refuseAddresses(group: Buffer): Buffer {
  return option(OPTION.addresses, group.subarray(0, 4), words32(0, 0), status(STATUS.noAddresses));
}

function networkOptions({ dns }: GuestAddressing): Buffer[] {
  const nameservers = dns.nameservers.filter((server) => server.includes(":")).map(ipv6Bytes);
  const search = searchList(dns);
  return [
    ...(nameservers.length === 0 ? [] : [option(OPTION.nameservers, ...nameservers)]),
    ...(search.length === 0 ? [] : [option(OPTION.search, search)]),
  ];
}

function isGroup(data: Buffer): boolean {
  return (
    data.length >= ADDRESSES_HEADER_BYTES && readOptions(data.subarray(ADDRESSES_HEADER_BYTES)) !== undefined
  );
}

/** Most of a client's own addresses that are answered. */
const OTHERS_MAX = 8;

function addressesIn(group: Buffer): Buffer[] {
  const options = readOptions(group.subarray(ADDRESSES_HEADER_BYTES)) ?? [];
  return options
    .filter(({ code, data }) => code === OPTION.address && data.length >= ADDRESS_BYTES)
    .map(({ data }) => data.subarray(0, 16))
    .slice(0, OTHERS_MAX);
}

function isIn(own: readonly Buffer[], address: Buffer): boolean {
  return own.some((one) => one.equals(address));
}

function dataOf(options: readonly Option[], code: number): Buffer | undefined {
  return options.find((one) => one.code === code)?.data;
}

function status(code: number): Buffer {
  return option(OPTION.status, words16(code));
}

function option(code: number, ...data: readonly Buffer[]): Buffer {
  const bytes = Buffer.concat(data);
  return Buffer.concat([words16(code, bytes.length), bytes]);
}

function words32(...values: readonly number[]): Buffer {
  return words16(...values.flatMap((value) => [Math.floor(value / 0x10000), value % 0x10000]));
}

/** Undefined where an option says that it is longer than what holds it. */
function readOptions(bytes: Buffer): readonly Option[] | undefined {
  const options: Option[] = [];
  let at = 0;
  while (at < bytes.length) {
    if (at + 4 > bytes.length) return undefined;
    const end = at + 4 + bytes.readUInt16BE(at + 2);
    if (end > bytes.length) return undefined;
    options.push({ code: bytes.readUInt16BE(at), data: bytes.subarray(at + 4, end) });
    at = end;
  }
  return options;
}
