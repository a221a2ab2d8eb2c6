import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";
import { systemCode } from "../../src/failure/failure.ts";

/** Below those that Linux gives to programs that ask for any port (net.ipv4.ip_local_port_range). */
const [FIRST, END] = [20_000, 32_000];
const given = new Set<number>();

/**
 * A free TCP port of 127.0.0.1, for tests that must know it before they listen on it, or use it again later. One
 * that the kernel chooses could be given to another test's server or client in between.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST, END);
    if (given.has(port)) continue;
    const server = createServer().listen(port, "127.0.0.1");
    try {
      await once(server, "listening");
    } catch (error) {
      if (systemCode(error) === "EADDRINUSE") continue;
      throw error;
    }
    server.close();
    await once(server, "close");
    given.add(port);
    return port;
  }
}
