import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, ListenOptions, Socket } from "node:net";
import { describeThrown, Failure, systemCode } from "../failure/failure.ts";
import { listenPrivately } from "../files/listen-privately.ts";
import type { Logger } from "../logging/logger.ts";
import { limitConnections } from "./connection-limit.ts";

/** What a page answers. */
export interface Page {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
  /** Beside those of every answer. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** Where a server listens. */
export type HttpPlace =
  | {
      /** IP address. */
      readonly address: string;
      /** 0 for any free one. */
      readonly port: number;
      /** What errors call it, and the key of the configuration that it comes from; metrics and probes by default. */
      readonly named?: { readonly what: string; readonly key: string };
    }
  | {
      /** Unix socket, made for its owner alone; its directory is made where it is missing. */
      readonly socketPath: string;
    };

/** Where to listen and what to answer. */
export type HttpServerOptions = HttpPlace & {
  /** By path, which must be met exactly: nothing of a request is ever part of a file's name. */
  readonly pages: ReadonlyMap<string, (query: URLSearchParams) => Promise<Page>>;
  /** Looks at a request before anything is done for it. @returns what it is refused with; undefined to let it in */
  readonly refuse?: (request: IncomingMessage) => Page | undefined;
  /** Headers of every answer, unless its page has others. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Milliseconds after which a connection is cut on which nothing moves, neither way; default 30 000. */
  readonly idleMs?: number;
  readonly logger: Logger;
};

/** A server that runs until it is closed. */
export interface HttpServer {
  /** Without a slash at its end; `unix:` and the path of a socket. */
  readonly url: string;
  /** Takes no more requests and waits for those that run, for a second at most. */
  close(): Promise<void>;
}

/** Time for a caller to send its request; there is nothing but a line and some headers. */
const REQUEST_MS = 5_000;
/** For an answer that nobody reads. Longer than kubelet and a switch may take to give one. */
const IDLE_MS = 30_000;
const MAX_HEADER_BYTES = 8 * 1024;
const MAX_CONNECTIONS = 32;
const CLOSE_MS = 1_000;
const METRICS = { what: "metrics and probes", key: "observe" };

/**
 * Serves read-only pages over HTTP, GET and HEAD, bounded in everything that a caller can make large or slow.
 * @throws Failure `invalid-config` when the address cannot be listened on
 */
export async function serveHttp(options: HttpServerOptions): Promise<HttpServer> {
  const waiting = new WeakSet<Socket>();
  const server = createServer(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: REQUEST_MS,
      requestTimeout: REQUEST_MS,
      connectionsCheckingInterval: REQUEST_MS,
    },
    (request, response) => {
      const { socket } = request;
      // One at a time on each connection: else a caller piles up answers without end by sending on.
      if (waiting.has(socket)) return void socket.destroy();
      waiting.add(socket);
      response.once("close", () => waiting.delete(socket));
      void respond(request, response, options);
    },
  );
  limitConnections(server, MAX_CONNECTIONS);
  server.setTimeout(options.idleMs ?? IDLE_MS);
  await listen(server, options);
  return { url: urlOf(server, options), close: () => close(server) };
}

function urlOf(server: Server, place: HttpPlace): string {
  if ("socketPath" in place) return `unix:${place.socketPath}`;
  const { address, port, family } = server.address() as AddressInfo;
  return `http://${family === "IPv6" ? `[${address}]` : address}:${port}`;
}

async function listen(server: Server, options: HttpServerOptions): Promise<void> {
  if ("socketPath" in options) await listenOnSocket(server, options.socketPath);
  else {
    const { address: host, port } = options;
    await listening(server, { host, port, exclusive: true }).catch((error: unknown) => {
      throw cannotListen(options, error);
    });
  }
  server.on("error", (err) => options.logger.warn({ err }, "a server of pages failed"));
}

function listening(server: Server, where: ListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(where, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

async function listenOnSocket(server: Server, path: string): Promise<void> {
  try {
    await listenPrivately(server, path);
  } catch (cause) {
    throw new Failure({
      code: "invalid-config",
      what: `the status of the node cannot be served: ${describeThrown(cause)}`,
      where: `statusSocket ${path}`,
      fix: "set statusSocket to a path in a directory that the daemon may write, of at most 103 bytes",
      cause,
    });
  }
}

function cannotListen(
  { address, port, named: { what, key } = METRICS }: Extract<HttpPlace, { readonly port: number }>,
  cause: unknown,
): Failure {
  const where = `${key}.address ${address}, ${key}.port ${port}`;
  switch (systemCode(cause)) {
    case "EADDRINUSE":
      return new Failure({
        code: "invalid-config",
        what: `${what} cannot be served: another program listens on the port`,
        where,
        fix: `set ${key}.port to a free one, or stop the other program`,
        cause,
      });
    default:
      return new Failure({
        code: "invalid-config",
        what: `${what} cannot be served: ${describeThrown(cause)}`,
        where,
        fix: `set ${key}.address to an address of this node or pod`,
        cause,
      });
  }
}

async function respond(
  request: IncomingMessage,
  response: ServerResponse,
  { pages, refuse, headers, logger }: HttpServerOptions,
): Promise<void> {
  // Whoever goes away in the middle of an answer is none of our business.
  response.on("error", () => undefined);
  const answer = await pageFor(request, pages, refuse).catch((err: unknown) => {
    logger.error({ err }, "a page could not be made");
    return text(500, `${describeThrown(err)}\n`);
  });
  response.writeHead(answer.status, {
    ...headers,
    ...answer.headers,
    "content-type": answer.contentType,
    "content-length": Buffer.byteLength(answer.body),
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    ...(answer.status === 405 ? { allow: "GET, HEAD" } : {}),
    // A body that we do not read must not be taken for the next request.
    ...(hasBody(request) ? { connection: "close" } : {}),
  });
  response.end(request.method === "HEAD" ? undefined : answer.body);
}

async function pageFor(
  request: IncomingMessage,
  pages: HttpServerOptions["pages"],
  refuse: HttpServerOptions["refuse"],
): Promise<Page> {
  const refused = refuse?.(request);
  if (refused !== undefined) return refused;
  const [path = "", query] = request.url?.split("?", 2) ?? [];
  const page = pages.get(path);
  if (page === undefined) return text(404, `there is: ${[...pages.keys()].join(", ")}\n`);
  if (request.method !== "GET" && request.method !== "HEAD") return text(405, "only GET and HEAD\n");
  return page(new URLSearchParams(query));
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || (headers["content-length"] ?? "0") !== "0";
}

/** A page of plain text. */
export function text(status: number, body: string): Page {
  return { status, contentType: "text/plain; charset=utf-8", body };
}

async function close(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  const force = setTimeout(() => server.closeAllConnections(), CLOSE_MS);
  await closed;
  clearTimeout(force);
}
