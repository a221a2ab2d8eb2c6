import type { ByteReader } from "../byte-reader.ts";
import {
  MESSAGE,
  type Message,
  MULTIPART,
  multipartBody,
  multipartRequest,
  pack,
  type Request,
  readerOf,
  request,
  VERSION_1_3,
} from "./message.ts";

/** A port of a bridge as OpenFlow numbers it. */
export interface BridgePort {
  readonly number: number;
  /** Cut to 15 characters, which ours never exceed. */
  readonly name: string;
}

/** Asks for all ports of the bridge; {@link readPorts} reads the answer. */
export const listPorts: Request = multipartRequest(MULTIPART.portDescription, Buffer.alloc(0));

/**
 * The ports in the replies to {@link listPorts}.
 * @throws Failure dataplane-protocol
 */
export function readPorts(replies: readonly Message[]): BridgePort[] {
  const reader = readerOf(multipartBody(MULTIPART.portDescription, replies), "list of ports");
  const ports: BridgePort[] = [];
  while (reader.left > 0) ports.push(readPort(reader, replies[0]?.version));
  return ports;
}

/** The port that a port-status message is about. */
export function readPortStatus({ body, version }: Message): BridgePort {
  const reader = readerOf(body, "port status");
  reader.take(8);
  return readPort(reader, version);
}

/** `struct ofp_port`: of fixed size until 1.3, with a length and properties since 1.4. */
function readPort(reader: ByteReader, version: number | undefined): BridgePort {
  const number = reader.u32();
  const length = reader.u16();
  const rest = readerOf(reader.take((version === VERSION_1_3 ? 64 : length) - 6), "port");
  rest.take(10); // padding, MAC address, padding
  const name = rest.take(16).toString("latin1").replace(/\0.*$/s, "");
  return { number, name };
}

/**
 * Makes the switch tell of ports that come and go, and of nothing else: the bridge's management socket is
 * silent unless `miss_send_len` is set, and then would send us every packet meant for a controller too.
 */
export const subscribeToPorts: readonly Request[] = [
  (version, xid) => (version === VERSION_1_3 ? setAsync13 : setAsync14)(version, xid),
  request(MESSAGE.setConfig, Buffer.from([0, 0, 0, 1])),
];

/** `OFPPR_ADD` and `OFPPR_DELETE`; a guest that comes up modifies its port, which changes no number. */
const PORT_REASONS = 0b011;

/** Packet-in, port status, flow removed; each as master and as slave. */
const MASKS = [0, 0, PORT_REASONS, PORT_REASONS, 0, 0];
const setAsync13 = request(MESSAGE.setAsync, pack("I I I I I I", ...MASKS));
/** 1.4 has a property of 8 bytes for each, numbered 0 to 5. */
const setAsync14 = request(
  MESSAGE.setAsync,
  Buffer.concat(MASKS.map((mask, type) => pack("H H I", type, 8, mask))),
);
