import { MESSAGE, type Request, request } from "./message.ts";

/** A frame that the switch is to handle as if it had come from a port. */
export interface PacketOut {
  /** Port that it seems to come from; its VLAN settings apply. */
  readonly inPort: number;
  /** What happens to it, in order: {@link output}. */
  readonly actions: readonly Buffer[];
  /** From its destination address on, without checksum. */
  readonly frame: Buffer;
}

/** Hands the switch one frame. */
export function packetOut({ inPort, actions, frame }: PacketOut): Request {
  const list = Buffer.concat(actions);
  const head = Buffer.alloc(16);
  head.writeUInt32BE(0xffffffff, 0); // OFP_NO_BUFFER
  head.writeUInt32BE(inPort, 4);
  head.writeUInt16BE(list.length, 8);
  return request(MESSAGE.packetOut, Buffer.concat([head, list, frame]));
}
