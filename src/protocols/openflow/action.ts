import { type FieldName, fieldHeader } from "./match.ts";
import { MESSAGE, type Request, request } from "./message.ts";

/** Reserved port numbers (OpenFlow 1.4 section 7.2.1.1; `OFPP_IN_PORT` in 16 bits is what `resubmit` takes). */
export const PORT = { table: 0xfffffff9, normal: 0xfffffffa, any: 0xffffffff } as const;
const IN_PORT_16 = 0xfff8;
/** Experimenter number of Nicira, whose extensions are Open vSwitch's own (ovs-actions(7)). */
const NICIRA = 0x2320;
const REG_LOAD = 7;
const RESUBMIT_TABLE = 14;
const APPLY_ACTIONS = 4;

/** Sends the packet to a port, or to the bridge's own forwarding with {@link PORT}.normal. */
export function output(port: number): Buffer {
  const action = Buffer.alloc(16);
  action.writeUInt16BE(0, 0); // OFPAT_OUTPUT
  action.writeUInt16BE(16, 2);
  action.writeUInt32BE(port, 4);
  return action;
}

/** Writes `value` into the `bits` bits of a register from `offset` on. */
export function loadRegister(name: FieldName, offset: number, bits: number, value: number): Buffer {
  const action = experimenter(24, REG_LOAD);
  action.writeUInt16BE((offset << 6) | (bits - 1), 10);
  action.writeUInt32BE(fieldHeader(name), 12);
  action.writeBigUInt64BE(BigInt(value), 16);
  return action;
}

/** Looks the packet up in a table again, as it is now, with the port that it came from. */
export function resubmit(table: number): Buffer {
  const action = experimenter(16, RESUBMIT_TABLE);
  action.writeUInt16BE(IN_PORT_16, 10);
  action.writeUInt8(table, 12);
  return action;
}

function experimenter(length: number, subtype: number): Buffer {
  const action = Buffer.alloc(length);
  action.writeUInt16BE(0xffff, 0); // OFPAT_EXPERIMENTER
  action.writeUInt16BE(length, 2);
  action.writeUInt32BE(NICIRA, 4);
  action.writeUInt16BE(subtype, 8);
  return action;
}

/** The instruction that does these actions; no actions at all drop the packet. */
export function applyActions(actions: readonly Buffer[]): Buffer {
  if (actions.length === 0) return Buffer.alloc(0);
  const head = Buffer.alloc(8);
  head.writeUInt16BE(APPLY_ACTIONS, 0);
  head.writeUInt16BE(8 + Buffer.concat(actions).length, 2);
  return Buffer.concat([head, ...actions]);
}

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
