import { once } from "node:events";
import { createServer } from "node:net";
import { systemCode } from "../../src/failure/failure.ts";
import { waitUntil } from "./wait-until.ts";

/** Longer than any work that is done under it. */
const LIMIT_MS = 60_000;

/**
 * Does work while no other work of the same name runs on this machine, in this process or another. Who binds the
 * abstract unix socket of that name may; the kernel frees the name whatever its holder dies of.
 */
export async function exclusively<Value>(name: string, work: () => Promise<Value>): Promise<Value> {
  const server = createServer((socket) => socket.destroy());
  const bind = async () => {
    try {
      await once(server.listen(`\0kube-vhostuser-${name}`), "listening");
      return true;
    } catch (error) {
      if (systemCode(error) === "EADDRINUSE") return false;
      throw error;
    }
  };
  await waitUntil(bind, { what: `another run is through with ${name}`, limitMs: LIMIT_MS });
  try {
    return await work();
  } finally {
    server.close();
  }
}
