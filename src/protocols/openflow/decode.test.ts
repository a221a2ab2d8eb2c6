import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Failure } from "../../failure/failure.ts";
import { applyActions, loadRegister, resubmit } from "./action.ts";
import { addFlow, type Flow, flowKey, readFlows } from "./flow.ts";
import { encodeMatch, field } from "./match.ts";
import {
  MESSAGE,
  type Message,
  MULTIPART,
  negotiate,
  readError,
  VERSION_1_3,
  VERSION_1_4,
} from "./message.ts";
import { readPortStatus, readPorts } from "./port.ts";

const flow: Flow = {
  table: 0,
  priority: 65003,
  cookie: 0x766875_0123456789n,
  match: [field("inPort", 3), field("reg15", 0, 0xc0000000), field("ethType", 0x806), field("arpOp", 2)],
  instructions: applyActions([loadRegister("reg15", 30, 2, 3), resubmit(0)]),
};

function multipart(kind: number, body: Buffer, flags = 0, version: number = VERSION_1_4): Message {
  const head = Buffer.alloc(8);
  head.writeUInt16BE(kind, 0);
  head.writeUInt16BE(flags, 2);
  return { version, type: MESSAGE.multipartReply, xid: 1, body: Buffer.concat([head, body]) };
}

/** An entry of a list of flows as a switch writes it. */
function entry({ table, priority, cookie, match, instructions }: Flow): Buffer {
  const head = Buffer.alloc(48);
  head.writeUInt8(table, 2);
  head.writeUInt16BE(priority, 12);
  head.writeBigUInt64BE(cookie, 24);
  const bytes = Buffer.concat([head, encodeMatch(match), instructions]);
  bytes.writeUInt16BE(bytes.length, 0);
  return bytes;
}

function port(number: number, name: string, length = 72): Buffer {
  const bytes = Buffer.alloc(length);
  bytes.writeUInt32BE(number, 0);
  bytes.writeUInt16BE(length, 4);
  bytes.write(name, 16, 15, "latin1");
  return bytes;
}

describe("what a switch answers", () => {
  it("gives flows as they were added, from one message or several", () => {
    const drop = { ...flow, match: [], instructions: applyActions([]) };
    const replies = [multipart(MULTIPART.flow, entry(flow), 1), multipart(MULTIPART.flow, entry(drop))];
    expect(readFlows(replies)).toEqual([flow, drop]);
    const turned = { ...flow, match: [...flow.match].reverse() };
    expect(flowKey(turned)).toBe(flowKey(flow));
    expect(flowKey(drop)).not.toBe(flowKey(flow));
  });

  it("is not taken for whole while the last message is missing, or of another kind", () => {
    expect(() => readFlows([multipart(MULTIPART.flow, entry(flow), 1)])).toThrow("did not finish");
    expect(() => readFlows([])).toThrow("did not finish");
    expect(() => readFlows([multipart(MULTIPART.portDescription, entry(flow))])).toThrow("something else");
  });

  it("gives ports by number and name, in either version", () => {
    const both = [
      { number: 1, name: "vhu0123456789ab" },
      { number: 0xfffffffe, name: "br-a" },
    ];
    const list = (length: number) =>
      Buffer.concat(both.map(({ number, name }) => port(number, name, length)));
    expect(readPorts([multipart(MULTIPART.portDescription, list(72))])).toEqual(both);
    expect(readPorts([multipart(MULTIPART.portDescription, list(64), 0, VERSION_1_3)])).toEqual(both);
    const body = Buffer.concat([Buffer.alloc(8), port(9, "p9")]);
    const status = { version: VERSION_1_4, type: MESSAGE.portStatus, xid: 0, body };
    expect(readPortStatus(status)).toEqual({ number: 9, name: "p9" });
  });

  it("agrees on the newest version that both speak", () => {
    const hello = (version: number, body: string) =>
      negotiate({ version, type: MESSAGE.hello, xid: 0, body: Buffer.from(body, "hex") });
    expect(hello(6, "")).toBe(VERSION_1_4);
    expect(hello(4, "")).toBe(VERSION_1_3);
    expect(hello(6, "0001000800000012")).toBe(VERSION_1_3);
    expect(hello(6, "000900050100000000010008000000ff")).toBe(VERSION_1_4);
    expect(() => hello(1, "")).toThrow("speaks OpenFlow 1.0 only; 1.3 or 1.4 is needed");
    expect(() => hello(6, "0001000800000042")).toThrow("speaks OpenFlow 1.0, 1.5 only");
  });

  it("names what the switch refused", () => {
    expect(readError(Buffer.from("00040006", "hex")).message).toContain("bad match, code 6");
    expect(readError(Buffer.from("00050001", "hex")).code).toBe("dataplane-misconfigured");
    expect(readError(Buffer.from("0000000068656c6c", "hex")).message).toContain(
      'hello failed, code 0: "hell"',
    );
  });

  it("never makes us hang or throw anything but a Failure, whatever bytes it is", () => {
    const readers: readonly ((body: Buffer, version: number) => unknown)[] = [
      (body) => readFlows([multipart(MULTIPART.flow, body)]),
      (body, version) => readPorts([multipart(MULTIPART.portDescription, body, 0, version)]),
      (body, version) => readPortStatus({ version, type: MESSAGE.portStatus, xid: 0, body }),
      (body, version) => negotiate({ version, type: MESSAGE.hello, xid: 0, body }),
      (body) => readFlows([{ version: VERSION_1_4, type: MESSAGE.multipartReply, xid: 0, body }]),
      (body) => {
        throw readError(body);
      },
    ];
    const lying = fc
      .tuple(
        fc.constantFrom(entry(flow), port(1, "p"), Buffer.from("0001000800000012", "hex")),
        fc.nat(),
        fc.nat(255),
      )
      .map(([bytes, at, value]) => {
        const changed = Buffer.concat([bytes, bytes]);
        changed.writeUInt8(value, at % changed.length);
        return changed;
      });
    const anything = fc.oneof(
      fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
      lying,
    );
    fc.assert(
      fc.property(anything, fc.constantFrom(1, VERSION_1_3, VERSION_1_4, 255), (body, version) => {
        for (const read of readers) {
          try {
            read(body, version);
          } catch (thrown) {
            expect(thrown).toBeInstanceOf(Failure);
          }
        }
      }),
      { numRuns: 2000 },
    );
  });
});

describe("what we ask", () => {
  it("is on the wire what OpenFlow 1.4 says", () => {
    const bytes = addFlow({ ...flow, match: [field("inPort", 3)], instructions: applyActions([]) })(
      VERSION_1_4,
      7,
    );
    expect(bytes.toString("hex")).toBe(
      "050e004000000007" + // header
        "76687501234567890000000000000000" + // cookie and its mask
        "000000000000fdeb" + // table, add, no time-outs, priority
        "ffffffffffffffffffffffff00000000" + // no buffer, any port, any group, no flags
        "0001000c800000040000000300000000", // match: in_port=3, padding
    );
  });
});
