import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

/** A unix socket that forwards to another one, and cuts a connection after a chosen number of bytes. */
export interface CuttingProxy {
  readonly path: string;
  /** Bytes that went each way since the last {@link arm}, over all connections. */
  readonly seen: { toServer: number; toClient: number };
  /**
   * From now on the connections are cut once so many bytes went that way in all; once cut, later connections pass.
   * Without a number nothing is cut. Bytes before the cut are delivered.
   */
  arm(cut?: { readonly direction: "toServer" | "toClient"; readonly afterBytes: number }): void;
  close(): Promise<void>;
}

/** Listens on `path` and forwards to `target`. */
export async function startCuttingProxy(path: string, target: string): Promise<CuttingProxy> {
  const open = new Set<Socket>();
  const seen = { toServer: 0, toClient: 0 };
  let cut: { readonly direction: "toServer" | "toClient"; readonly afterBytes: number } | undefined;

  const server = createServer((client) => {
    const upstream = connect(target);
    const both = [client, upstream];
    for (const socket of both) {
      open.add(socket);
      socket.on("error", () => undefined);
      socket.once("close", () => {
        open.delete(socket);
        for (const other of both) other.destroy();
      });
    }
    const forward = (from: Socket, to: Socket, direction: "toServer" | "toClient") => {
      from.on("data", (chunk) => {
        const left =
          cut?.direction === direction ? cut.afterBytes - seen[direction] : Number.POSITIVE_INFINITY;
        const part = chunk.subarray(0, Math.max(0, left));
        seen[direction] += part.length;
        if (chunk.length <= left) {
          to.write(part);
          return;
        }
        cut = undefined;
        from.pause();
        // The client's side dies at once; the server still gets what was let through.
        to.end(part, () => from.destroy());
      });
    };
    forward(client, upstream, "toServer");
    forward(upstream, client, "toClient");
  });
  await once(server.listen(path), "listening");
  return {
    path,
    seen,
    arm: (next) => {
      cut = next;
      seen.toServer = 0;
      seen.toClient = 0;
    },
    close: async () => {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
