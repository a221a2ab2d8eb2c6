import { once } from "node:events";
import { mkdir, rm } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { join } from "node:path";
import type { Clock } from "../clock/clock.ts";
import { Failure, systemCode } from "../failure/failure.ts";

/** The right to write a records directory; kept until it is released or the process dies. */
export interface OwnerLock {
  release(): Promise<void>;
}

const WAIT_MS = 10_000;
const RETRY_MS = 200;

/**
 * Makes sure that one daemon owns the records, also while an upgrade starts the new one before the old one is
 * gone: the owner listens on a socket in the directory, which the kernel closes whatever the owner dies of.
 * @throws Failure `internal` when another daemon still owns it after 10 s
 */
export async function takeOwnership(recordsDirectory: string, clock: Clock): Promise<OwnerLock> {
  await mkdir(recordsDirectory, { recursive: true, mode: 0o700 });
  const path = join(recordsDirectory, "owner.sock");
  const deadline = clock.now() + WAIT_MS;
  for (;;) {
    const server = await tryListen(path);
    if (server !== undefined) {
      return { release: () => new Promise((resolve) => server.close(() => resolve())) };
    }
    if (await isAlive(path)) {
      if (clock.now() >= deadline) throw owned(recordsDirectory);
      await clock.sleep(RETRY_MS);
    } else {
      await rm(path, { force: true });
    }
  }
}

async function tryListen(path: string): Promise<Server | undefined> {
  const server = createServer((socket) => socket.destroy());
  try {
    server.listen(path);
    await once(server, "listening");
    return server;
  } catch (error) {
    if (systemCode(error) === "EADDRINUSE") return undefined;
    throw error;
  }
}

async function isAlive(path: string): Promise<boolean> {
  const socket = connect(path);
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

function owned(directory: string): Failure {
  return new Failure({
    code: "internal",
    what: "another daemon owns the records",
    where: directory,
    fix: "stop it first; two daemons on one node would undo each other's work",
  });
}
