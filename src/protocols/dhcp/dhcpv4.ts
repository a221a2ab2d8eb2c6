// DHCP for one guest with one address: RFC 2131, options of RFC 2132, routes of RFC 3442, search list of RFC 3397.
import { ipv4Bytes } from "../../addresses/host-address.ts";
import { words16 } from "../ethernet/frames.ts";
import { domainName, type GuestAddressing, LEASE, searchList } from "./guest-addressing.ts";

const BOOT_REQUEST = 1;
const BOOT_REPLY = 2;
const FIXED_BYTES = 236;
const COOKIE = Buffer.from([99, 130, 83, 99]);
/** What a client accepts at least, with IP and UDP (RFC 2131 section 2), and what fits any network. */
const MESSAGE_BYTES = { min: 576, max: 1_400, ipAndUdp: 28 } as const;
const OPTION_MAX = 255;
const MTU_MIN = 68;

const TYPE = { discover: 1, offer: 2, request: 3, ack: 5, nak: 6, inform: 8 } as const;
const OPTION = {
  ...{ pad: 0, mask: 1, router: 3, nameservers: 6, domain: 15, mtu: 26, requested: 50, lifetime: 51 },
  ...{ type: 53, server: 54, size: 57, renewal: 58, rebinding: 59, search: 119, routes: 121, end: 255 },
} as const;

/** A client's message. */
interface Request {
  readonly transaction: Buffer;
  readonly flags: number;
  /** Its address, once it uses it. */
  readonly client: Buffer;
  /** Its MAC, as it says. */
  readonly hardware: Buffer;
  readonly options: ReadonlyMap<number, Buffer>;
}

/** What a server answers, and the addresses of the packet that carries it. */
export interface Dhcpv4Answer {
  readonly from: Buffer;
  readonly to: Buffer;
  readonly message: Buffer;
}

/**
 * What is answered to a guest; undefined where it sent no request of its own that this server has to answer.
 * @param bytes whatever the guest sent to the server's port
 */
export function answerDhcpv4(bytes: Buffer, guest: GuestAddressing): Dhcpv4Answer | undefined {
  const request = readRequest(bytes);
  const own = guest.addresses.find(({ address }) => !address.includes(":"));
  if (request === undefined || own === undefined) return undefined;
  if (request.hardware.toString("hex") !== guest.mac.replaceAll(":", "")) return undefined;
  const [address = "", length = "32"] = own.address.split("/");
  const lease: Lease = { guest, address: ipv4Bytes(address), length: Number(length), gateway: own.gateway };
  const type = answerType(request, lease);
  return type === undefined ? undefined : answer(request, type, lease);
}

interface Lease {
  readonly guest: GuestAddressing;
  readonly address: Buffer;
  readonly length: number;
  readonly gateway: string | undefined;
}

function answerType({ options, client }: Request, lease: Lease): number | undefined {
  const named = options.get(OPTION.server);
  switch (options.get(OPTION.type)?.[0]) {
    case TYPE.discover:
      return TYPE.offer;
    case TYPE.inform:
      return TYPE.ack;
    case TYPE.request: {
      // It took another server's offer.
      if (named !== undefined && !named.equals(serverOf(lease))) return undefined;
      const wanted = options.get(OPTION.requested) ?? client;
      return wanted.equals(lease.address) ? TYPE.ack : TYPE.nak;
    }
    default:
      return undefined;
  }
}

function answer({ transaction, flags, client, hardware, options }: Request, type: number, lease: Lease) {
  const isInform = options.get(OPTION.type)?.[0] === TYPE.inform;
  const isNak = type === TYPE.nak;
  const nothing = Buffer.alloc(4);
  const from = serverOf(lease);
  const size = Math.max(MESSAGE_BYTES.min, Math.min(sizeOf(options), MESSAGE_BYTES.max));
  const space = size - MESSAGE_BYTES.ipAndUdp - FIXED_BYTES - COOKIE.length;
  const first = [option(OPTION.type, Buffer.from([type])), option(OPTION.server, from)];
  const rest = isNak ? [] : [...(isInform ? [] : leaseOptions()), ...networkOptions(lease)];
  const message = Buffer.concat([
    Buffer.from([BOOT_REPLY, 1, 6, 0]),
    transaction,
    words16(0, flags),
    isNak ? nothing : client,
    isNak || isInform ? nothing : lease.address,
    ...[nothing, nothing, hardware, Buffer.alloc(10), Buffer.alloc(64 + 128)],
    COOKIE,
    fitting([...first, ...rest], space - 1),
    Buffer.from([OPTION.end]),
  ]);
  const isUsed = !client.equals(nothing);
  const toAll = isNak || (!isUsed && (flags & BROADCAST_FLAG) !== 0);
  return { from, to: toAll ? Buffer.alloc(4, 0xff) : isUsed ? client : lease.address, message };
}

/** The client cannot receive a packet to its address before it has it (RFC 2131 section 4.1). */
const BROADCAST_FLAG = 0x8000;

function leaseOptions(): Buffer[] {
  return [
    option(OPTION.lifetime, seconds(LEASE.lifetime)),
    option(OPTION.renewal, seconds(LEASE.renewal)),
    option(OPTION.rebinding, seconds(LEASE.rebinding)),
  ];
}

/** In the order of their importance: what does not fit is left out from the end. */
function networkOptions({ guest, address, length, gateway }: Lease): Buffer[] {
  const routes = guest.routes.flatMap(({ dst, gw = gateway }) =>
    dst.includes(":") || gw?.includes(":") ? [] : [{ dst, router: ipv4Bytes(gw ?? "0.0.0.0") }],
  );
  const routers = new Map(routes.map(({ router }) => [router.toString("hex"), router]));
  // A router that is not on the guest's network can be reached directly all the same.
  const beside = [...routers.values()].filter(
    (router) => router.some(Boolean) && !masked(router, length).equals(masked(address, length)),
  );
  const classless = Buffer.concat([
    ...beside.map((router) => Buffer.concat([Buffer.from([32]), router, Buffer.alloc(4)])),
    ...routes.map(({ dst, router }) => Buffer.concat([destination(dst), router])),
  ]);
  const byDefault = routes.find(({ dst }) => dst === DEFAULT_ROUTE)?.router;
  // A client that knows classless routes ignores the router then (RFC 3442): they hold the default route too.
  const onlyDefault = beside.length === 0 && routes.every(({ dst }) => dst === DEFAULT_ROUTE);
  const nameservers = guest.dns.nameservers.filter((server) => !server.includes(":")).map(ipv4Bytes);
  const { domain } = guest.dns;
  return [
    option(OPTION.mask, masked(Buffer.alloc(4, 0xff), length)),
    option(OPTION.routes, onlyDefault ? Buffer.alloc(0) : classless),
    option(OPTION.router, byDefault ?? Buffer.alloc(0)),
    option(OPTION.mtu, guest.mtu === undefined || guest.mtu < MTU_MIN ? Buffer.alloc(0) : words16(guest.mtu)),
    option(OPTION.nameservers, Buffer.concat(nameservers)),
    option(
      OPTION.domain,
      Buffer.from(domainName(domain ?? "") === undefined ? "" : (domain ?? ""), "latin1"),
    ),
    option(OPTION.search, guest.dns.search.length === 0 ? Buffer.alloc(0) : searchList(guest.dns)),
  ];
}

const DEFAULT_ROUTE = "0.0.0.0/0";

/** The significant bytes of a network behind the number of its bits (RFC 3442). */
function destination(dst: string): Buffer {
  const [network = "", length = "32"] = dst.split("/");
  const bits = Number(length);
  return Buffer.concat([
    Buffer.from([bits]),
    masked(ipv4Bytes(network), bits).subarray(0, Math.ceil(bits / 8)),
  ]);
}

function masked(address: Buffer, length: number): Buffer {
  const mask = (0xffff_ffff_0000_0000n >> BigInt(length)) & 0xffff_ffffn;
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(Number(BigInt(address.readUInt32BE()) & mask));
  return bytes;
}

/**
 * How the server calls itself: the gateway, whose MAC the guest can learn for a renewal, which then comes here; else the
 * first other address of the network.
 */
function serverOf({ address, length, gateway }: Lease): Buffer {
  if (gateway !== undefined && !gateway.includes(":")) return ipv4Bytes(gateway);
  const network = masked(address, length).readUInt32BE();
  const server = Buffer.alloc(4);
  server.writeUInt32BE((network + (network + 1 === address.readUInt32BE() ? 2 : 1)) >>> 0);
  return server;
}

function sizeOf(options: ReadonlyMap<number, Buffer>): number {
  const said = options.get(OPTION.size);
  return said?.length === 2 ? said.readUInt16BE() : MESSAGE_BYTES.min;
}

function seconds(count: number): Buffer {
  return words16(Math.floor(count / 0x10000), count % 0x10000);
}

/** An option, in parts where it is longer than one can be (RFC 3396); nothing for no data. */
function option(code: number, data: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < data.length; at += OPTION_MAX) {
    const part = data.subarray(at, at + OPTION_MAX);
    parts.push(Buffer.from([code, part.length]), part);
  }
  return Buffer.concat(parts);
}

function fitting(options: readonly Buffer[], space: number): Buffer {
  let left = space;
  const taken = options.filter(({ length }) => {
    if (length > left) return false;
    left -= length;
    return true;
  });
  return Buffer.concat(taken);
}

/** Undefined for what is no message of a client on this link. */
function readRequest(bytes: Buffer): Request | undefined {
  if (bytes.length < FIXED_BYTES + COOKIE.length || bytes[0] !== BOOT_REQUEST) return undefined;
  const isEthernet = bytes[1] === 1 && bytes[2] === 6;
  const isRelayed = bytes.subarray(24, 28).some(Boolean);
  if (!isEthernet || isRelayed || !bytes.subarray(FIXED_BYTES).subarray(0, 4).equals(COOKIE))
    return undefined;
  const options = readOptions(bytes.subarray(FIXED_BYTES + COOKIE.length));
  if (options === undefined) return undefined;
  return {
    transaction: bytes.subarray(4, 8),
    flags: bytes.readUInt16BE(10),
    client: bytes.subarray(12, 16),
    hardware: bytes.subarray(28, 34),
    options,
  };
}

/** Of an option that comes twice, the first. Undefined where one says that it is longer than the message. */
function readOptions(bytes: Buffer): ReadonlyMap<number, Buffer> | undefined {
  const options = new Map<number, Buffer>();
  let at = 0;
  while (at < bytes.length && bytes[at] !== OPTION.end) {
    const code = bytes[at] ?? OPTION.end;
    if (code === OPTION.pad) {
      at += 1;
      continue;
    }
    const length = bytes[at + 1];
    if (length === undefined || at + 2 + length > bytes.length) return undefined;
    if (!options.has(code)) options.set(code, bytes.subarray(at + 2, at + 2 + length));
    at += 2 + length;
  }
  return options;
}
