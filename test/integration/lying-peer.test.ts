import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer as createHttp2Server, type ServerHttp2Stream } from "node:http2";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  encodeMessage,
  MESSAGE,
  openflowMessages,
  VERSION_1_4,
} from "../../src/protocols/openflow/message.ts";
import { frame, vppFrames } from "../../src/protocols/vpp-api/frame.ts";

const CLIENT = join(import.meta.dirname, "lying-peer-client.ts");
/** What a peer may make us hold. */
const LIMIT_MIB = 32;
const CHUNK = 64 * 1024;

interface Report {
  readonly code: string;
  readonly message: string;
  readonly logged: readonly string[];
  readonly growthMib: number;
}

/** The client runs in a process of its own, whose memory is measured; the peer is a socket of this one. */
describe("a misbehaving peer", () => {
  let directory: string;
  let path: string;
  let server: Server;
  const peers = new Set<Socket>();

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "lying-"));
    path = join(directory, "peer.sock");
    server = createServer((peer) => {
      peers.add(peer.on("error", () => undefined));
    });
    await once(server.listen(path), "listening");
  });
  afterEach(async () => {
    for (const peer of peers) peer.destroy();
    peers.clear();
    server.close();
    await rm(directory, { recursive: true, force: true });
  });

  async function askIt(
    protocol: "ovsdb" | "openflow" | "vpp" | "kubelet",
    lie: (peer: Socket) => void,
  ): Promise<Report> {
    server.on("connection", lie);
    const { stdout } = await promisify(execFile)(process.execPath, ["--expose-gc", CLIENT, protocol, path]);
    return JSON.parse(stdout) as Report;
  }

  /** Sends the same until the connection ends. */
  function sayForEver(peer: Socket, bytes: Buffer): void {
    const many = Buffer.concat(Array.from({ length: Math.ceil(CHUNK / bytes.length) }, () => bytes));
    const say = () => {
      while (!peer.destroyed && peer.write(many));
    };
    peer.on("drain", say);
    say();
  }

  function greetByOpenflow(peer: Socket, onRequest: (xid: number) => void): void {
    const stream = openflowMessages();
    peer.write(encodeMessage(VERSION_1_4, MESSAGE.hello, 1, Buffer.alloc(0)));
    peer.on("data", (chunk) => {
      for (const { type, xid } of stream.push(chunk)) if (type === MESSAGE.multipartRequest) onRequest(xid);
    });
  }

  /** Greets as a VPP with these messages, numbered from 100 on; gets the number and context of each request. */
  function greetByVpp(
    peer: Socket,
    names: readonly string[],
    onRequest: (id: number, context: number) => void,
  ): void {
    const stream = vppFrames(1024);
    const head = Buffer.alloc(20);
    head.writeUInt16BE(16, 0);
    head.writeUInt16BE(names.length, 18);
    const entries = names.map((name, at) => {
      const entry = Buffer.alloc(66);
      entry.writeUInt16BE(100 + at);
      entry.write(name, 2);
      return entry;
    });
    peer.write(frame(Buffer.concat([head, ...entries])));
    peer.on("data", (chunk) => {
      for (const message of stream.push(chunk)) {
        onRequest(message.readUInt16BE(0), message.readUInt32BE(6));
      }
    });
  }

  /** Answers a call of gRPC with one message, of which it announces `length` bytes. */
  function answerCalls(peer: Socket, message: Buffer, length = message.length): void {
    const http2 = createHttp2Server().on("stream", (stream: ServerHttp2Stream) => {
      const head = Buffer.alloc(5);
      head.writeUInt32BE(length, 1);
      stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
      stream
        .on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }))
        .on("error", () => undefined);
      stream.end(Buffer.concat([head, message]));
    });
    http2.emit("connection", peer);
  }

  /** A message of protobuf: a field of wire type 2. */
  function field(number: number, content: Buffer | string): Buffer {
    const bytes = Buffer.from(content);
    const length = [
      (bytes.length & 127) | 128,
      ((bytes.length >> 7) & 127) | 128,
      ((bytes.length >> 14) & 127) | 128,
      bytes.length >> 21,
    ];
    return Buffer.concat([Buffer.from([number * 8 + 2, ...length]), bytes]);
  }

  const DROPPED = expect.stringContaining("dropped the connection to the switch");
  const endless = expect.stringContaining("an answer without an end");
  const unread = expect.stringContaining("does not read what it is sent");

  it("is dropped when its OpenFlow multipart reply has no end, empty as its parts are", async () => {
    const report = await askIt("openflow", (peer) =>
      greetByOpenflow(peer, (xid) => {
        const body = Buffer.alloc(8);
        body.writeUInt16BE(1, 0);
        body.writeUInt16BE(1, 2); // OFPMPF_REPLY_MORE
        sayForEver(peer, encodeMessage(VERSION_1_4, MESSAGE.multipartReply, xid, body));
      }),
    );
    expect(report).toMatchObject({ code: "dataplane-protocol", message: endless, logged: [DROPPED] });
    expect(report.growthMib).toBeLessThan(LIMIT_MIB);
  });

  it("is dropped when it hides short replies between long messages of another kind", async () => {
    const report = await askIt("openflow", (peer) =>
      greetByOpenflow(peer, (xid) => {
        const body = Buffer.alloc(8);
        body.writeUInt16BE(1, 0);
        body.writeUInt16BE(1, 2);
        const part = encodeMessage(VERSION_1_4, MESSAGE.multipartReply, xid, body);
        const filler = encodeMessage(VERSION_1_4, MESSAGE.barrierReply, 0xffff_ffff, Buffer.alloc(2048));
        sayForEver(peer, Buffer.concat([part, filler]));
      }),
    );
    expect(report).toMatchObject({ code: "dataplane-protocol", message: endless, logged: [DROPPED] });
    expect(report.growthMib).toBeLessThan(LIMIT_MIB);
  });

  it("is dropped when it sends OpenFlow echo requests and does not read the replies", async () => {
    const report = await askIt("openflow", (peer) => {
      greetByOpenflow(peer, () => {
        peer.pause();
        sayForEver(peer, encodeMessage(VERSION_1_4, MESSAGE.echoRequest, 1, Buffer.alloc(0)));
      });
    });
    expect(report).toMatchObject({ code: "dataplane-timeout", message: unread, logged: [DROPPED] });
    expect(report.growthMib).toBeLessThan(LIMIT_MIB);
  });

  it("is dropped when it sends OVSDB echo requests and does not read the replies", async () => {
    const report = await askIt("ovsdb", (peer) => {
      peer.pause();
      sayForEver(peer, Buffer.from(JSON.stringify({ method: "echo", params: ["x".repeat(100)], id: 1 })));
    });
    expect(report).toMatchObject({ code: "dataplane-timeout", message: unread, logged: [DROPPED] });
    expect(report.growthMib).toBeLessThan(LIMIT_MIB);
  });

  it.each([
    ["brackets inside each other", "[", "nested deeper"],
    ["empty lists", "[[],[]", "values"],
    ["empty objects", "[{},{}", "values"],
    ["members inside each other", '[{"a":1},{"b":', "nested deeper"],
    ["small numbers", "[1", "values"],
    ["texts without an end", '["xxxxxxxxxxxxxxxxxxx', "bytes"],
  ])("is dropped when its OVSDB message is nothing but %s", async (_, start, words) => {
    const report = await askIt("ovsdb", (peer) => {
      peer.write(start);
      const more = start === "[" ? "[" : start.startsWith('["') ? start.slice(2) : `,${start.slice(1)}`;
      sayForEver(peer, Buffer.from(more));
    });
    expect(report).toMatchObject({
      code: "dataplane-protocol",
      message: expect.stringContaining(words),
      logged: [DROPPED],
    });
    expect(report.growthMib).toBeLessThan(LIMIT_MIB);
  });

  it("costs little with the largest OVSDB message that is taken", async () => {
    const report = await askIt("ovsdb", (peer) => {
      const filler = `"${"x".repeat(3 * 1024 * 1024)}"`;
      peer.write(`{"id":1,"error":null,"result":[${"{},".repeat(249_000)}${filler}]}`);
    });
    expect(report).toMatchObject({ code: "none" });
    expect(report.growthMib).toBeLessThan(LIMIT_MIB);
  });

  it.each([
    ["details without members", 0],
    ["details with many members", 200_000],
  ])("is dropped when a dump of VPP has no end: %s", async (_, members) => {
    const names = [
      ...["bridge_domain_dump_74396a43", "bridge_domain_details_0fa506fd"],
      ...["control_ping_51077d14", "control_ping_reply_f6b0b8ca"],
    ];
    const report = await askIt("vpp", (peer) =>
      greetByVpp(peer, names, (id, context) => {
        if (id !== 100) return;
        const details = Buffer.alloc(6 + 4 + 7 + 64 + 8 + 4 + 9 * members);
        details.writeUInt16BE(101, 0);
        details.writeUInt32BE(context, 2);
        details.writeUInt32BE(members, 6 + 4 + 7 + 64 + 8);
        sayForEver(peer, frame(details));
      }),
    );
    expect(report).toMatchObject({ code: "dataplane-protocol", message: endless, logged: [DROPPED] });
    expect(report.growthMib).toBeLessThan(LIMIT_MIB);
  });

  it.each([
    ["empty pods", Buffer.from([10, 0]), "more than 100000 fields"],
    ["devices of one container", field(1, field(3, field(2, field(2, "d")))), "more than 100000 fields"],
    ["nonsense", Buffer.from([255]), "malformed"],
  ])("is refused where kubelet's list is nothing but %s", async (_, part, words) => {
    const list = Buffer.alloc(8 * 1024 * 1024 - 5, part);
    const report = await askIt("kubelet", (peer) => answerCalls(peer, list));
    expect(report).toMatchObject({ code: "kubelet-unavailable", message: expect.stringContaining(words) });
    expect(report.growthMib).toBeLessThan(LIMIT_MIB);
  });

  it("is refused where kubelet announces a list of gigabytes", async () => {
    const report = await askIt("kubelet", (peer) => answerCalls(peer, Buffer.alloc(CHUNK), 2 ** 31));
    expect(report).toMatchObject({ code: "kubelet-unavailable", message: expect.stringContaining("larger") });
    expect(report.growthMib).toBeLessThan(LIMIT_MIB);
  });

  it("costs little with the largest list of kubelet's that is accepted", async () => {
    const device = field(2, "a-device-with-a-name-of-forty-characters");
    const pod = field(
      1,
      Buffer.concat([field(1, "pod"), field(3, field(2, Buffer.concat(Array(1900).fill(device))))]),
    );
    const report = await askIt("kubelet", (peer) => answerCalls(peer, Buffer.concat(Array(50).fill(pod))));
    expect(report).toMatchObject({ code: "none" });
    expect(report.growthMib).toBeLessThan(LIMIT_MIB);
  });
});
