import { chmod, mkdir, rename, rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { dirname } from "node:path";
import { describeThrown } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";
import type { Answer } from "./answer.ts";
import { answerFrame, parseRequestFrame } from "./frame.ts";
import type { RawRequest } from "./request.ts";

/** What the server for the shim works with. */
export interface CniServerOptions {
  readonly socketPath: string;
  readonly answer: (request: RawRequest, signal: AbortSignal) => Promise<Answer>;
  readonly logger: Logger;
  /** Time for one verb; below the shim's 90 s, so that the caller hears what was wrong. */
  readonly deadlineMs?: number;
}

/** A running CNI server. */
export interface CniServer {
  /** Takes no more requests and waits for those that run. */
  close(): Promise<void>;
}

/** Time that a caller has for sending its request. */
const REQUEST_MS = 10_000;
const DEADLINE_MS = 30_000;

/**
 * Serves the shim (shim/PROTOCOL.md). The socket is bound beside its name and renamed into place with its mode
 * already set, so that it is never open to others and replaces the one of a dead daemon in one step.
 */
export async function serveCni(options: CniServerOptions): Promise<CniServer> {
  await mkdir(dirname(options.socketPath), { recursive: true, mode: 0o700 });
  /** Connections that have not sent their whole request. */
  const silent = new Set<Socket>();
  const running = new Set<Promise<void>>();
  const server = createServer((socket) => {
    silent.add(socket);
    const work = serveOne(socket, options, () => silent.delete(socket)).finally(() => running.delete(work));
    running.add(work);
  });
  const temporary = `${options.socketPath}.new`;
  await rm(temporary, { force: true });
  await listen(server, temporary);
  await chmod(temporary, 0o600);
  await rename(temporary, options.socketPath);
  return {
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of silent) socket.destroy();
      await Promise.allSettled([...running]);
      // The socket's name stays: it may be a successor's already, and a dead one refuses at once.
      await closed;
    },
  };
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(path, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

async function serveOne(socket: Socket, options: CniServerOptions, onReceived: () => void): Promise<void> {
  try {
    const request = await receive(socket).finally(onReceived);
    // A caller that ended early made no request; acting on half of one could be wrong.
    if (request === undefined) return;
    const result = await options.answer(request, AbortSignal.timeout(options.deadlineMs ?? DEADLINE_MS));
    await new Promise<void>((resolve) => socket.end(answerFrame(result), () => resolve()));
  } catch (error) {
    options.logger.warn({ reason: describeThrown(error) }, "a connection on the CNI socket failed");
  } finally {
    socket.destroy();
  }
}

function receive(socket: Socket): Promise<RawRequest | undefined> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    socket.setTimeout(REQUEST_MS, () => reject(new Error(`no whole request within ${REQUEST_MS} ms`)));
    socket.on("error", reject);
    socket.on("end", () => resolve(undefined));
    socket.on("close", () => resolve(undefined));
    socket.on("data", (chunk) => {
      chunks.push(chunk);
      try {
        const request = parseRequestFrame(Buffer.concat(chunks));
        if (request === undefined) return;
        socket.setTimeout(0);
        resolve(request);
      } catch (error) {
        reject(error instanceof Error ? error : new Error(String(error)));
      }
    });
  });
}
