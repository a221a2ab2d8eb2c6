import { type FieldName, fieldHeader } from "./match.ts";
import { MESSAGE, pack, type Request, request } from "./message.ts";

/** Reserved port numbers (OpenFlow 1.4 section 7.2.1.1; `OFPP_IN_PORT` in 16 bits is for `resubmit`). */
export const PORT = {
  table: 0xfffffff9,
  normal: 0xfffffffa,
  controller: 0xfffffffd,
  any: 0xffffffff,
} as const;
const IN_PORT_16 = 0xfff8;
/** `OFP_NO_BUFFER`: the switch holds no frame for the message. */
export const NO_BUFFER = 0xffffffff;
/** Types of actions (`ofp_action_type`). */
const OUTPUT = 0;
const EXPERIMENTER = 0xffff;
/** Experimenter number of Nicira, whose extensions are Open vSwitch's own (ovs-actions(7)). */
export const NICIRA = 0x2320;
const REG_LOAD = 7;
const RESUBMIT_TABLE = 14;
const CONTROLLER = 20;
/** `OFPR_ACTION`, why a packet goes to a controller. */
const BY_ACTION = 1;
const WHOLE_PACKET = 0xffff;
const APPLY_ACTIONS = 4;

/** Sends the packet to a port, or to the bridge's own forwarding with {@link PORT}.normal. */
export function output(port: number): Buffer {
  return pack("H H I 8x", OUTPUT, 16, port);
}

/** Writes `value` into the `bits` bits of a register from `offset` on. */
export function loadRegister(name: FieldName, offset: number, bits: number, value: number): Buffer {
  const part = (offset << 6) | (bits - 1);
  return pack("H H I H H I Q", EXPERIMENTER, 24, NICIRA, REG_LOAD, part, fieldHeader(name), BigInt(value));
}

/** Looks the packet up in a table again, as it is now, with the port that it came from. */
export function resubmit(table: number): Buffer {
  return pack("H H I H H B 3x", EXPERIMENTER, 16, NICIRA, RESUBMIT_TABLE, IN_PORT_16, table);
}

/** Sends the packet to connections with this controller id, and to no others. */
export function toController(id: number): Buffer {
  return pack("H H I H H H B 1x", EXPERIMENTER, 16, NICIRA, CONTROLLER, WHOLE_PACKET, id, BY_ACTION);
}

/** The instruction that does these actions; no actions at all drop the packet. */
export function applyActions(actions: readonly Buffer[]): Buffer {
  if (actions.length === 0) return Buffer.alloc(0);
  const list = Buffer.concat(actions);
  return Buffer.concat([pack("H H 4x", APPLY_ACTIONS, 8 + list.length), list]);
}

/**
 * Has the switch handle a frame as if it had come from a port, whose VLAN settings apply.
 * @param actions what happens to it, in order: {@link output}
 * @param frame from its destination address on, without checksum
 */
export function packetOut(of: { inPort: number; actions: readonly Buffer[]; frame: Buffer }): Request {
  const list = Buffer.concat(of.actions);
  const head = pack("I I H 6x", NO_BUFFER, of.inPort, list.length);
  return request(MESSAGE.packetOut, Buffer.concat([head, list, of.frame]));
}
