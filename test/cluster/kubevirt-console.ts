import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type Server } from "node:net";

/**
 * Serves a VM's serial console on a unix socket, where {@link GuestConsole} expects it: each connection by a `virtctl console` of
 * its own, which ends with it.
 */
export async function serveConsole(
  path: string,
  [program, ...args]: readonly [string, ...(readonly string[])],
): Promise<Server> {
  const server = createServer((socket) => {
    const child = spawn(program, args, { stdio: ["pipe", "pipe", "ignore"] });
    for (const stream of [socket, child, child.stdin, child.stdout])
      stream.on("error", () => socket.destroy());
    socket.pipe(child.stdin);
    child.stdout.pipe(socket);
    socket.on("close", () => child.stdin.end());
    child.on("exit", () => socket.destroy());
  });
  server.listen(path);
  await once(server, "listening");
  return server;
}
