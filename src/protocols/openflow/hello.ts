import { Failure } from "../../failure/failure.ts";
import {
  encodeMessage,
  MESSAGE,
  type Message,
  protocolFailure,
  readerOf,
  VERSION_1_3,
  VERSION_1_4,
  type Version,
} from "./message.ts";

const SPOKEN: readonly Version[] = [VERSION_1_4, VERSION_1_3];
/** `OFPHET_VERSIONBITMAP`, the one element of a hello (OpenFlow 1.4 section 7.5.1). */
const VERSION_BITMAP = 1;
const NAMES: Readonly<Record<number, string>> = {
  1: "1.0",
  2: "1.1",
  3: "1.2",
  4: "1.3",
  5: "1.4",
  6: "1.5",
};

/** Our hello: the versions that we speak, as a bitmap. */
export function encodeHello(): Buffer {
  const element = Buffer.alloc(8);
  element.writeUInt16BE(VERSION_BITMAP, 0);
  element.writeUInt16BE(8, 2);
  element.writeUInt32BE(
    SPOKEN.reduce((bits, version) => bits | (1 << version), 0),
    4,
  );
  return encodeMessage(VERSION_1_4, MESSAGE.hello, 0, element);
}

/**
 * The newest version that both sides speak, by the switch's hello: its bitmap, else all up to the one in its header.
 * @throws Failure dataplane-misconfigured where there is no such, dataplane-protocol
 */
export function negotiate(hello: Message): Version {
  if (hello.type !== MESSAGE.hello) throw protocolFailure(`it began with a message of type ${hello.type}`);
  const offered = offeredVersions(hello);
  const version = SPOKEN.find((spoken) => offered.includes(spoken));
  if (version !== undefined) return version;
  throw new Failure({
    code: "dataplane-misconfigured",
    what: `the bridge speaks OpenFlow ${offered.map((number) => NAMES[number] ?? `0x${number.toString(16)}`).join(", ")} only; 1.3 or 1.4 is needed`,
    where: "Bridge.protocols",
    fix: "allow it: ovs-vsctl add bridge BRIDGE protocols OpenFlow14",
  });
}

function offeredVersions({ version, body }: Message): number[] {
  const reader = readerOf(body, "hello");
  while (reader.left >= 4) {
    const type = reader.u16();
    const length = reader.u16();
    if (length < 4) throw reader.malformed(`an element says that it has ${length} bytes`);
    const element = reader.take(length - 4);
    if (type === VERSION_BITMAP && element.length >= 4) return setBits(element.readUInt32BE());
    reader.skip(Math.min((8 - (length % 8)) % 8, reader.left));
  }
  return Array.from({ length: version }, (_, index) => index + 1);
}

function setBits(bitmap: number): number[] {
  return Array.from({ length: 32 }, (_, bit) => bit).filter((bit) => (bitmap & (1 << bit)) !== 0);
}
