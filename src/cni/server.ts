import { createServer, type Socket } from "node:net";
import { describeThrown } from "../failure/failure.ts";
import { listenPrivately } from "../files/listen-privately.ts";
import type { Delegate } from "../ipam/ipam.ts";
import type { Logger } from "../logging/logger.ts";
import { type Clock, systemClock } from "../sync/clock.ts";
import type { Answer } from "./answer.ts";
import type { RawRequest } from "./request.ts";
import { ShimConnection } from "./shim-connection.ts";
import { WorkDeadline } from "./work-deadline.ts";

/** What the server for the shim works with. */
export interface CniServerOptions {
  readonly socketPath: string;
  readonly answer: (request: RawRequest, signal: AbortSignal) => Promise<Answer>;
  readonly logger: Logger;
  /**
   * Time for one verb's own work, without that of the plugins that it delegates to; far below the shim's 110 s for the
   * whole call, so that the caller gets the reason.
   */
  readonly deadlineMs?: number;
  readonly clock?: Clock;
}

/** A running CNI server. */
export interface CniServer {
  /**
   * Accepts no more requests and waits for those that run, but only some seconds for their plugins: meanwhile the node
   * is not served. A request whose plugin goes on is undone, and the shim repeats it to the next daemon.
   */
  close(): Promise<void>;
}

const DEADLINE_MS = 30_000;
/** How long plugins may go on when the daemon stops. */
const DRAIN_MS = 5_000;

/**
 * Serves the shim (shim/PROTOCOL.md), on a socket of root's alone that replaces the one of a dead daemon in one step.
 */
export async function serveCni(options: CniServerOptions): Promise<CniServer> {
  /** Connections that have not sent their whole request. */
  const silent = new Set<Socket>();
  const running = new Map<ShimConnection, Promise<void>>();
  const { clock = systemClock } = options;
  const server = createServer((socket) => {
    silent.add(socket);
    const shim = new ShimConnection(socket, clock);
    const work = serveOne(shim, options, () => silent.delete(socket)).finally(() => {
      socket.destroy();
      running.delete(shim);
    });
    running.set(shim, work);
  });
  await listenPrivately(server, options.socketPath);
  return {
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of silent) socket.destroy();
      const patience = new AbortController();
      const endDelegations = () => {
        for (const shim of running.keys()) shim.endDelegations();
      };
      clock.sleep(DRAIN_MS, patience.signal).then(endDelegations, () => undefined);
      await Promise.allSettled([...running.values()]);
      patience.abort();
      // The socket's name stays: it may be a successor's already, and a dead one refuses at once.
      await closed;
    },
  };
}

async function serveOne(
  shim: ShimConnection,
  options: CniServerOptions,
  onReceived: () => void,
): Promise<void> {
  const { clock = systemClock, deadlineMs: ms = DEADLINE_MS } = options;
  try {
    const request = await shim.receiveRequest().finally(onReceived);
    // A caller that ended early made no request; acting on half of one could be wrong.
    if (request === undefined) return;
    const deadline = new WorkDeadline({ ms, clock });
    const delegate: Delegate = (call) => deadline.pauseDuring(() => shim.delegate(call));
    const result = await options
      .answer({ ...request, delegate }, deadline.signal)
      .finally(() => deadline.close());
    await shim.answer(result);
  } catch (error) {
    options.logger.warn({ reason: describeThrown(error) }, "a connection on the CNI socket failed");
  }
}
