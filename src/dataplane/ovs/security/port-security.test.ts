import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ManualClock } from "../../../../test/stand-in/manual-clock.ts";
import {
  encodeMessage,
  MESSAGE,
  type Message,
  MULTIPART,
  openflowMessages,
  VERSION_1_4,
} from "../../../protocols/openflow/message.ts";
import { PortSecurity } from "./port-security.ts";

const PORT = { name: "vhu1", mac: "02:00:00:00:00:01", addresses: [] };
const soon = () => AbortSignal.timeout(30_000);

let directory: string;
let server: Server | undefined;
let peers: Socket[];
let security: PortSecurity;
let clock: ManualClock;
let logged: string[];
/** Whether the bridge refuses bundles. */
let isRefusing: boolean;

/** A bridge with one port and no flows, which does or refuses everything that it is asked. */
async function startBridge(): Promise<void> {
  const bridge = createServer((socket) => {
    peers.push(socket);
    const stream = openflowMessages();
    socket.on("error", () => undefined);
    socket.write(encodeMessage(VERSION_1_4, MESSAGE.hello, 0, Buffer.alloc(0)));
    socket.on("data", (chunk) => {
      for (const message of stream.push(chunk)) for (const bytes of answer(message)) socket.write(bytes);
    });
  });
  server = bridge;
  await once(bridge.listen(join(directory, "br-a.mgmt")), "listening");
}

function answer({ version, type, xid, body }: Message): Buffer[] {
  const reply = (as: number, bytes: Buffer) => [encodeMessage(version, as, xid, bytes)];
  if (type === MESSAGE.barrierRequest) return reply(MESSAGE.barrierReply, Buffer.alloc(0));
  if (type === MESSAGE.bundleControl && isRefusing)
    return reply(MESSAGE.error, Buffer.from("00110000", "hex"));
  if (type !== MESSAGE.multipartRequest) return [];
  const kind = body.readUInt16BE();
  const port = Buffer.alloc(72);
  port.writeUInt32BE(7, 0);
  port.writeUInt16BE(port.length, 4);
  port.write(PORT.name, 16);
  const head = Buffer.alloc(8);
  head.writeUInt16BE(kind);
  const list = kind === MULTIPART.portDescription ? port : Buffer.alloc(0);
  return reply(MESSAGE.multipartReply, Buffer.concat([head, list]));
}

async function stopBridge(): Promise<void> {
  for (const peer of peers.splice(0)) peer.destroy();
  const closed = server && once(server, "close");
  server?.close();
  server = undefined;
  await closed;
}

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kvu-security-"));
  [peers, logged, isRefusing] = [[], [], false];
  clock = new ManualClock();
  const logger = pino({ level: "debug" }, { write: (line) => void logged.push(JSON.parse(line).msg) });
  security = new PortSecurity(directory, logger, clock);
  await startBridge();
});
afterEach(async () => {
  security.close();
  await stopBridge();
  await rm(directory, { recursive: true });
});

/** Moves time on until this is the last line of the log. */
async function untilLogged(line: string, stepMs: number): Promise<void> {
  await expect
    .poll(async () => {
      await clock.advance(stepMs);
      return logged.at(-1);
    })
    .toBe(line);
}

it("restores flows over the first connection to a switch that is back, and reports its loss once", async () => {
  expect(await security.ensure("br-a", PORT, soon())).toBe(true);
  await stopBridge();
  await untilLogged("lost the connection to a bridge with secured ports", 0);
  // Tried every 10 ms.
  expect(clock.pending.filter((ms) => ms <= 10)).toHaveLength(1);
  await clock.advance(100);
  await startBridge();
  await untilLogged("restored port security flows", 10);
  expect(logged).toEqual([
    "lost the connection to a bridge with secured ports",
    "restored port security flows",
  ]);
});

it("retries flows that the switch refuses, every 2 s", async () => {
  await security.ensure("br-a", PORT, soon());
  isRefusing = true;
  peers.at(-1)?.destroy();
  await untilLogged("could not restore port security flows", 10);
  await expect.poll(() => clock.pending.some((ms) => ms > 1_900 && ms <= 2_000)).toBe(true);
  isRefusing = false;
  await untilLogged("restored port security flows", 2_000);
});

it("does not connect again to a bridge without secured ports", async () => {
  await security.ensure("br-a", PORT, soon());
  await security.remove("br-a", PORT.name, soon());
  const lost = once(peers.at(-1) as Socket, "close");
  peers.at(-1)?.destroy();
  await lost;
  await expect.poll(() => clock.pending).toEqual([]);
  await clock.advance(1_000);
  expect([peers.length, logged]).toEqual([1, []]);
});
