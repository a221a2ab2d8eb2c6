import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { orAborted } from "../../src/sync/deadlines.ts";

/** Replaces QEMU: listens on a port's socket and sees whether the switch dials it. Sends nothing. */
interface SocketListener {
  /** Resolves once the switch has dialled; a switch tries about once a second. */
  dialled(limitMs?: number): Promise<void>;
  /** Resolves once the switch has hung up. */
  hungUp(limitMs?: number): Promise<void>;
  close(): Promise<void>;
}

/** Listens on `path`, which must be free. */
export async function listenOnSocket(path: string): Promise<SocketListener> {
  const sockets = new Set<Socket>();
  const dialled = Promise.withResolvers<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined).resume();
    socket.once("close", () => sockets.delete(socket));
    dialled.resolve(socket);
  });
  await once(server.listen(path), "listening");
  const within = <Value>(promise: Promise<Value>, limitMs: number, what: string) => {
    const giveUp = AbortSignal.timeout(limitMs);
    return orAborted(promise, giveUp, () => new Error(`${what} ${path} within ${limitMs} ms`));
  };
  return {
    dialled: async (limitMs = 60_000) => {
      await within(dialled.promise, limitMs, "the switch did not dial");
    },
    hungUp: async (limitMs = 60_000) => {
      const socket = await within(dialled.promise, limitMs, "the switch did not dial");
      if (!socket.destroyed) {
        await within(once(socket, "close"), limitMs, "the switch did not hang up");
      }
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
