import { chmod, mkdir, rename, rm, rmdir } from "node:fs/promises";
import type { Server } from "node:net";
import { dirname, join } from "node:path";

/**
 * Has a server listen on a unix socket of mode 0600. It is bound in a directory of its own beside its name, which is its
 * owner's alone, and renamed into place with its mode already set: never open to others, whatever the umask, and the one
 * of a dead server is replaced in one step. Its directory is made where it is missing.
 * @param path of at most 103 bytes
 * @throws what Node or the system says; the server does not listen then
 */
export async function listenPrivately(server: Server, path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const own = `${path}.d`;
  const bound = join(own, "s");
  const clear = async () => {
    await rm(bound, { force: true });
    await rmdir(own);
  };
  // A process that was killed in between has left it.
  await clear().catch(() => undefined);
  await mkdir(own, { mode: 0o700 });
  try {
    await listening(server, bound);
    await chmod(bound, 0o600);
    await rename(bound, path);
  } catch (error) {
    // A server that keeps listening at the temporary path would keep its program from ending.
    server.close();
    throw error;
  } finally {
    await clear().catch(() => undefined);
  }
}

function listening(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(path, () => {
      server.off("error", reject);
      resolve();
    });
  });
}
