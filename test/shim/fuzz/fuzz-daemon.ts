import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { FuzzConnection } from "./fuzz-case.ts";

/** A daemon that plays a fuzzer's connections. */
export interface FuzzDaemon extends AsyncDisposable {
  /** All that arrived on each connection that was listened to. */
  readonly received: readonly Buffer[][];
}

/** Listens at the path and plays; writes whether or not the shim is ready for it. */
export async function playFuzz(
  path: string,
  connections: readonly FuzzConnection[],
): Promise<FuzzDaemon | undefined> {
  const last = connections.at(-1);
  if (last === undefined) return undefined;
  const received: Buffer[][] = [];
  const sockets = new Set<Socket>();
  let count = 0;
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    const connection = connections[count++] ?? last;
    sockets.add(socket);
    socket.on("error", () => undefined); // hang-ups are what this is about
    socket.on("close", () => sockets.delete(socket));
    if (connection.isDeaf) return void socket.destroy();
    const bytes: Buffer[] = [];
    received.push(bytes);
    socket.on("data", (chunk) => bytes.push(chunk));
    socket.on("end", () => socket.end());
    socket.once("data", () => void play(socket, connection));
  });
  server.listen(path);
  await once(server, "listening");
  return {
    received,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

async function play(socket: Socket, connection: FuzzConnection): Promise<void> {
  for (const piece of connection.pieces) {
    if (socket.destroyed) return;
    socket.write(piece);
    await nextTurn();
  }
  if (connection.then === "end") socket.end();
  if (connection.then === "destroy") socket.destroy();
}
