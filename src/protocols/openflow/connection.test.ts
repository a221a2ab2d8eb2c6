import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { failureOf } from "../../../test/stand-in/failure-of.ts";
import { Failure } from "../../failure/failure.ts";
import { silentLogger } from "../../logging/logger.ts";
import { commitBundle } from "./bundle.ts";
import { bridgeSocket, connectOpenflow, createOpenflowClient } from "./connection.ts";
import { encodeMatch, field } from "./match.ts";
import {
  encodeMessage,
  MESSAGE,
  type Message,
  openflowMessages,
  request,
  VERSION_1_3,
  VERSION_1_4,
} from "./message.ts";
import { type BridgePort, listPorts, readPorts } from "./port.ts";
import type { PacketIn } from "./subscription.ts";

const soon = () => AbortSignal.timeout(30_000);

describe("a connection to a bridge", () => {
  let directory: string;
  let path: string;
  let server: Server;
  /** Everything that the bridge was sent but hellos, in order, and its latest peer. */
  let heard: Message[];
  let peer: Socket;
  /** What the bridge says to a message; by default it does everything that it is asked. */
  let answer: (message: Message) => readonly Buffer[];
  let greeting: Buffer;

  const reply = (to: Message, type: number, body: Buffer = Buffer.alloc(0)) =>
    encodeMessage(to.version, type, to.xid, body);
  const obedient = (message: Message) =>
    message.type === MESSAGE.barrierRequest ? [reply(message, MESSAGE.barrierReply)] : [];

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "openflow-"));
    path = join(directory, "br-a.mgmt");
    heard = [];
    answer = obedient;
    greeting = encodeMessage(6, MESSAGE.hello, 9, Buffer.alloc(0));
    server = createServer((socket) => {
      peer = socket;
      const stream = openflowMessages();
      socket.on("error", () => undefined);
      socket.write(greeting);
      socket.on("data", (chunk) => {
        for (const message of stream.push(chunk)) {
          if (message.type === MESSAGE.hello) continue;
          heard.push(message);
          for (const bytes of answer(message)) socket.write(bytes);
        }
      });
    });
    await once(server.listen(path), "listening");
  });
  afterEach(async () => {
    peer?.destroy();
    server.close();
    await rm(directory, { recursive: true, force: true });
  });

  it("speaks 1.4, answers echoes and gives each request its replies", async () => {
    await using connection = disposable(await connectOpenflow({ path }, soon()));
    answer = (message) => {
      if (message.type !== MESSAGE.multipartRequest) return obedient(message);
      const body = Buffer.alloc(8);
      body.writeUInt16BE(13, 0);
      return [reply(message, MESSAGE.multipartReply, body)];
    };
    peer.write(encodeMessage(VERSION_1_4, MESSAGE.echoRequest, 77, Buffer.from("are you there")));
    const [none = [], ports = []] = await connection.exchange(
      [request(MESSAGE.setConfig), listPorts],
      soon(),
    );
    expect(none).toEqual([]);
    expect(readPorts(ports)).toEqual([]);
    await connection.exchange([], soon()); // what we wrote before it was heard before it
    expect(heard.every(({ version }) => version === VERSION_1_4)).toBe(true);
    const echo = heard.find(({ type }) => type === MESSAGE.echoReply);
    expect([echo?.xid, echo?.body.toString()]).toEqual([77, "are you there"]);
  });

  it("reports ports and packets once it was asked to", async () => {
    const first = Promise.withResolvers<BridgePort>();
    const packet = Promise.withResolvers<PacketIn>();
    await using _ = disposable(
      await connectOpenflow({ path, onPort: first.resolve, onPacket: packet.resolve }, soon()),
    );
    expect(heard.map(({ type }) => type)).toEqual([
      MESSAGE.setAsync,
      MESSAGE.experimenter,
      MESSAGE.setConfig,
      MESSAGE.barrierRequest,
    ]);
    const body = Buffer.alloc(8 + 72);
    body.writeUInt32BE(5, 8);
    body.writeUInt16BE(72, 12);
    body.write("vhu1", 24);
    peer.write(encodeMessage(VERSION_1_4, MESSAGE.portStatus, 0, body));
    expect(await first.promise).toEqual({ number: 5, name: "vhu1" });
    const head = Buffer.from("ffffffff000301000766875000000001", "hex");
    const match = Buffer.concat([encodeMatch([field("inPort", 5)]), Buffer.alloc(2)]);
    const seen = Buffer.concat([head, match, Buffer.from("abc")]);
    peer.write(encodeMessage(VERSION_1_4, MESSAGE.packetIn, 0, seen));
    expect(await packet.promise).toMatchObject({ inPort: 5, frame: Buffer.from("abc") });
  });

  it("rejects what the switch refuses and stays usable", async () => {
    await using connection = disposable(await connectOpenflow({ path }, soon()));
    answer = (message) =>
      message.type === MESSAGE.flowMod
        ? [reply(message, MESSAGE.error, Buffer.from("00040006", "hex"))]
        : obedient(message);
    const failure = await failureOf(connection.exchange([request(MESSAGE.flowMod)], soon()));
    expect([failure.code, failure.what]).toEqual([
      "dataplane-protocol",
      "the switch refused an OpenFlow request: bad match, code 6",
    ]);
    expect(await connection.exchange([request(MESSAGE.setConfig)], soon())).toEqual([[]]);
  });

  it.each([
    [VERSION_1_4, MESSAGE.bundleControl, MESSAGE.bundleAdd],
    [VERSION_1_3, MESSAGE.experimenter, MESSAGE.experimenter],
  ])("commits a bundle only once its parts were taken, in version 0x0%i", async (version, control, add) => {
    greeting = encodeMessage(version, MESSAGE.hello, 9, Buffer.alloc(0));
    await using connection = disposable(await connectOpenflow({ path }, soon()));
    await commitBundle(connection, [request(MESSAGE.flowMod), request(MESSAGE.flowMod)], soon());
    const { barrierRequest } = MESSAGE;
    const types = () => heard.map(({ type }) => type);
    expect(types()).toEqual([control, add, add, barrierRequest, control, barrierRequest]);
    const inner = heard[1]?.body.subarray(-8);
    expect(inner?.readUInt32BE(4)).toBe(heard[1]?.xid);

    heard = [];
    answer = (message) =>
      message.type === add && message.xid % 2 === 0
        ? [reply(message, MESSAGE.error, Buffer.from("00110006", "hex"))]
        : obedient(message);
    const parts = Array.from({ length: 4 }, () => request(MESSAGE.flowMod));
    expect((await failureOf(commitBundle(connection, parts, soon()))).message).toContain(
      "bundle failed, code 6",
    );
    await connection.exchange([], soon());
    const commit = 4;
    const kinds = heard
      .filter(({ type, body }) => type === control && body.length <= 16)
      .map(({ body }) => body.readUInt16BE(body.length - 4));
    expect(kinds).not.toContain(commit);
  });

  it("fails what waits when the switch goes, or keeps silent until the deadline", async () => {
    await using connection = disposable(await connectOpenflow({ path }, soon()));
    answer = () => [];
    const late = await failureOf(connection.exchange([request(MESSAGE.setConfig)], AbortSignal.timeout(10)));
    expect(late.code).toBe("dataplane-timeout");
    const cut = failureOf(connection.exchange([request(MESSAGE.setConfig)], soon()));
    peer.destroy();
    expect((await cut).code).toBe("dataplane-unavailable");
    expect(connection.lost.aborted).toBe(true);
    expect((await failureOf(connection.exchange([], soon()))).code).toBe("dataplane-unavailable");
  });

  it("fails without a listener, without a greeting, and where no version is common", async () => {
    const absent = await failureOf(connectOpenflow({ path: join(directory, "none") }, soon()));
    expect([absent.code, absent.message]).toEqual([
      "dataplane-unavailable",
      expect.stringMatching(/ENOENT.*check that ovs-vswitchd runs/),
    ]);
    greeting = Buffer.alloc(0);
    expect((await failureOf(connectOpenflow({ path }, AbortSignal.timeout(10)))).code).toBe(
      "dataplane-timeout",
    );
    greeting = encodeMessage(1, MESSAGE.hello, 9, Buffer.alloc(0));
    expect((await failureOf(connectOpenflow({ path }, soon()))).code).toBe("dataplane-misconfigured");
  });

  it("ends, with a Failure, on whatever bytes a switch may send", async () => {
    const bytes = fc.uint8Array({ minLength: 1, maxLength: 64 }).map((each) => Buffer.from(each));
    const typed = fc
      .tuple(fc.nat(40), fc.nat(3), bytes)
      .map(([type, xid, body]) => encodeMessage(VERSION_1_4, type, xid, body));
    await fc.assert(
      fc.asyncProperty(fc.array(fc.oneof(bytes, typed), { minLength: 1, maxLength: 5 }), async (chunks) => {
        await using connection = disposable(await connectOpenflow({ path, onPort: () => undefined }, soon()));
        answer = () => chunks;
        const outcome = connection.exchange([listPorts], AbortSignal.timeout(200)).then(
          ([replies = []]) => readPorts(replies),
          (thrown: unknown) => thrown,
        );
        peer.end(Buffer.concat(chunks));
        await outcome.then(
          (value) => expect(Array.isArray(value) || value instanceof Failure).toBe(true),
          (thrown: unknown) => expect(thrown).toBeInstanceOf(Failure),
        );
        answer = obedient;
      }),
      { numRuns: 100 },
    );
  });

  it("is shared by a client's callers, and made again once it is lost", async () => {
    const client = createOpenflowClient({ path, logger: silentLogger });
    const [one, other] = await Promise.all([client.connection(soon()), client.connection(soon())]);
    expect(one).toBe(other);
    const lost = once(one.lost, "abort");
    peer.destroy();
    await lost;
    const next = await client.connection(soon());
    expect(next).not.toBe(one);
    await next.exchange([], soon());
    client.close();
    expect(next.lost.aborted || (await once(next.lost, "abort"))).toBeTruthy();
    expect((await failureOf(client.connection(soon()))).code).toBe("dataplane-unavailable");
  });

  it("is made again also where what came behind the greeting was malformed", async () => {
    const sound = greeting;
    greeting = Buffer.concat([sound, encodeMessage(VERSION_1_3, MESSAGE.barrierReply, 1, Buffer.alloc(0))]);
    const client = createOpenflowClient({ path, logger: silentLogger });
    const first = await client.connection(soon());
    expect(first.lost.aborted).toBe(true);
    greeting = sound;
    const exchanged = async () => (await client.connection(soon())).exchange([], soon());
    await expect.poll(() => exchanged().catch(() => "refused"), { timeout: 30_000 }).toEqual([]);
    client.close();
  });

  it("does not let one caller's deadline end the attempt of the others", async () => {
    greeting = Buffer.alloc(0);
    const client = createOpenflowClient({ path, logger: silentLogger });
    const accepted = once(server, "connection");
    const early = failureOf(client.connection(AbortSignal.timeout(10)));
    const patient = client.connection(soon());
    await accepted;
    expect((await early).code).toBe("dataplane-timeout");
    peer.write(encodeMessage(6, MESSAGE.hello, 9, Buffer.alloc(0)));
    expect((await patient).lost.aborted).toBe(false);
    client.close();
  });
});

function disposable<Closable extends { close(): void }>(closable: Closable): Closable & AsyncDisposable {
  return Object.assign(closable, { [Symbol.asyncDispose]: async () => closable.close() });
}

describe("the socket of a bridge", () => {
  it("lies in the run directory, and stays there whatever the bridge is called", () => {
    expect(bridgeSocket("/run/openvswitch", "br-a")).toBe("/run/openvswitch/br-a.mgmt");
    expect(() => bridgeSocket("/run/openvswitch", "../tmp/x")).toThrow("is not the name of a bridge");
    expect(() => bridgeSocket("/run/openvswitch", "")).toThrow("is not the name of a bridge");
    expect(() => bridgeSocket(`/${"r".repeat(100)}`, "br-a")).toThrow("107 are allowed");
  });
});
