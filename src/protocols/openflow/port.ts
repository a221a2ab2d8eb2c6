import type { ByteReader } from "../byte-reader.ts";
import {
  type Message,
  MULTIPART,
  multipartBody,
  multipartRequest,
  type Request,
  readerOf,
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
