import { once } from "node:events";
import { createServer, type Socket } from "node:net";

/** A request as the wire has it. */
export interface WireRequest {
  readonly header: string;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: Buffer;
}

/** How a delegate ended. */
export interface WireDelegateEnd {
  readonly exitCode: number;
  readonly stdout: Buffer;
}

/** The daemon's side of one connection, byte by byte as a test wants it. */
export interface DaemonSide {
  readonly request: WireRequest;
  readonly socket: Socket;
  /** Asks for a delegate and waits for its end; undefined when the shim hung up instead. */
  delegate(call: {
    type: string;
    env?: Readonly<Record<string, string>>;
    stdin?: string | Buffer;
  }): Promise<WireDelegateEnd | undefined>;
  answer(exitCode: 0 | 1, body: string | Buffer): void;
}

/** A daemon that a test plays; it reads frames by code of its own, not by the product's. */
export interface ScriptedDaemon {
  /** Every request that arrived whole. */
  readonly requests: readonly WireRequest[];
  close(): Promise<void>;
}

/** Frame of a delegation (shim/PROTOCOL.md). */
export function delegationBytes(type: string, env: Readonly<Record<string, string>>, stdin: Buffer): Buffer {
  const block = Buffer.from(
    Object.entries(env)
      .map(([name, value]) => `${name}=${value}\0`)
      .join(""),
  );
  const header = `delegate ${Buffer.byteLength(type)} ${block.length} ${stdin.length}\n`;
  return Buffer.concat([Buffer.from(header), Buffer.from(type), block, stdin]);
}

/** Listens and plays `script` with each connection, the first, the second and so on. */
export async function playDaemon(
  socketPath: string,
  script: (side: DaemonSide, connection: number) => unknown,
): Promise<ScriptedDaemon> {
  const requests: WireRequest[] = [];
  const sockets = new Set<Socket>();
  const serve = async (socket: Socket) => {
    const take = frameReader(socket);
    const sizes = /^kube-vhostuser-cni 2 \d+ (\d+) (\d+)$/;
    const first = await take(sizes, 2);
    if (first === undefined) return;
    const [environment = Buffer.alloc(0), stdin = Buffer.alloc(0)] = first.parts;
    const request = { header: first.header, env: environmentOf(environment), stdin };
    requests.push(request);
    const side: DaemonSide = {
      request,
      socket,
      delegate: async ({ type, env = {}, stdin: input = "" }) => {
        socket.write(delegationBytes(type, env, Buffer.from(input)));
        const end = await take(/^(\d+) (\d+)$/, 1);
        return end && { exitCode: Number(end.numbers[0]), stdout: end.parts[0] ?? Buffer.alloc(0) };
      },
      answer: (exitCode, body) => {
        const bytes = Buffer.from(body);
        socket.end(Buffer.concat([Buffer.from(`${exitCode} ${bytes.length}\n`), bytes]));
      },
    };
    await script(side, requests.length);
  };
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined); // a shim that ends resets its connection
    socket.on("close", () => sockets.delete(socket));
    void serve(socket).catch((error: Error) => socket.destroy(error));
  });
  server.listen(socketPath);
  await once(server, "listening");
  return {
    requests,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

/** Environment block to record. */
function environmentOf(block: Buffer): Record<string, string> {
  const entries = block.toString().split("\0").slice(0, -1);
  return Object.fromEntries(entries.map((entry) => entry.split(/=(.*)/s, 2) as [string, string]));
}

/** Takes one frame after the other: a line of numbers, then as many parts as the last `count` numbers say. */
function frameReader(socket: Socket) {
  let bytes = Buffer.alloc(0);
  let isOver = false;
  let wake = () => {};
  socket.on("data", (chunk) => {
    bytes = Buffer.concat([bytes, chunk]);
    wake();
  });
  socket.on("close", () => {
    isOver = true;
    wake();
  });
  socket.on("end", () => {
    isOver = true;
    wake();
  });
  return async (pattern: RegExp, count: number) => {
    for (;;) {
      const newline = bytes.indexOf(0x0a);
      const header = bytes.toString("latin1", 0, newline);
      const match = newline < 0 ? null : pattern.exec(header);
      if (newline >= 0 && match === null) throw new Error(`the shim sent ${JSON.stringify(header)}`);
      if (match !== null) {
        const numbers = match.slice(1).map(Number);
        const ends = [newline + 1];
        for (const size of numbers.slice(-count)) ends.push((ends.at(-1) ?? 0) + size);
        const last = ends.at(-1) ?? 0;
        if (bytes.length >= last) {
          const parts = ends.slice(1).map((end, index) => bytes.subarray(ends[index], end));
          bytes = bytes.subarray(last);
          return { header, numbers, parts };
        }
      }
      if (isOver) return undefined;
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  };
}
