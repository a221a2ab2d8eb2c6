import { NICIRA } from "./action.ts";
import { exactValue, readMatch } from "./match.ts";
import { MESSAGE, type Message, pack, type Request, readerOf, request, VERSION_1_3 } from "./message.ts";

/** The controller id of this program's connections; that of a controller which an administrator has is 0. */
export const CONTROLLER_ID = 0x7668;

/** A packet that a flow has sent to the controller. */
export interface PacketIn {
  /** Of the flow. */
  readonly cookie: bigint;
  /** The port that it came from. */
  readonly inPort: number;
  /** From its destination address on; a view of the message. */
  readonly frame: Buffer;
}

/**
 * Makes the switch report ports that come and go, and packets that flows send to {@link CONTROLLER_ID}, and nothing else:
 * the bridge's management socket is silent unless `miss_send_len` is set, and then would send every packet meant for a
 * controller too.
 */
export const subscribe: readonly Request[] = [
  (version, xid) => (version === VERSION_1_3 ? setAsync13 : setAsync14)(version, xid),
  // `NXT_SET_CONTROLLER_ID`, before packets are asked for (ovs-actions(7), "The controller action").
  request(MESSAGE.experimenter, pack("I I 6x H", NICIRA, 20, CONTROLLER_ID)),
  request(MESSAGE.setConfig, Buffer.from([0, 0, 0, 1])),
];

/** `OFPPR_ADD` and `OFPPR_DELETE`; a guest that comes up modifies its port, which changes no number. */
const PORT_REASONS = 0b011;
/** `OFPR_ACTION`. */
const PACKET_REASONS = 0b010;

/** Packet-in, port status, flow removed; each as master and as slave. */
const MASKS = [PACKET_REASONS, PACKET_REASONS, PORT_REASONS, PORT_REASONS, 0, 0];
const setAsync13 = request(MESSAGE.setAsync, pack("I I I I I I", ...MASKS));
/** 1.4 has a property of 8 bytes for each, numbered 0 to 5. */
const setAsync14 = request(
  MESSAGE.setAsync,
  Buffer.concat(MASKS.map((mask, type) => pack("H H I", type, 8, mask))),
);

/**
 * The packet that a packet-in message is about (OpenFlow 1.4 section 7.4.1).
 * @throws Failure dataplane-protocol
 */
export function readPacketIn({ body }: Message): PacketIn {
  const reader = readerOf(body, "packet");
  reader.take(8); // buffer, length, reason, table
  const cookie = reader.u64();
  const inPort = exactValue(readMatch(reader), "inPort");
  if (inPort?.length !== 4) throw reader.malformed("it does not say from which port");
  reader.take(2);
  return { cookie, inPort: inPort.readUInt32BE(), frame: reader.take(reader.left) };
}
