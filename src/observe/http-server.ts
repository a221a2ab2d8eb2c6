import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { describeThrown, Failure, systemCode } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";

/** What a page answers. */
export interface Page {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
}

/** Where to listen and what to answer. */
export interface HttpServerOptions {
  /** IP address. */
  readonly address: string;
  /** 0 for any free one. */
  readonly port: number;
  /** By path, which must be met exactly: nothing of a request is ever part of a file's name. */
  readonly pages: ReadonlyMap<string, () => Promise<Page>>;
  readonly logger: Logger;
}

/** A server that runs until it is closed. */
export interface HttpServer {
  /** Without a slash at its end. */
  readonly url: string;
  /** Takes no more requests and waits for those that run, for a second at most. */
  close(): Promise<void>;
}

/** Time for a caller to send its request; there is nothing but a line and some headers. */
const REQUEST_MS = 5_000;
const MAX_HEADER_BYTES = 8 * 1024;
const MAX_CONNECTIONS = 32;
const CLOSE_MS = 1_000;

/**
 * Serves read-only pages over HTTP, GET and HEAD, bounded in everything that a caller can make large or slow.
 * @throws Failure `invalid-config` when the address cannot be listened on
 */
export async function serveHttp(options: HttpServerOptions): Promise<HttpServer> {
  const server = createServer(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: REQUEST_MS,
      requestTimeout: REQUEST_MS,
      connectionsCheckingInterval: REQUEST_MS,
    },
    (request, response) => void respond(request, response, options),
  );
  server.maxConnections = MAX_CONNECTIONS;
  await listen(server, options);
  const { address, port, family } = server.address() as AddressInfo;
  return {
    url: `http://${family === "IPv6" ? `[${address}]` : address}:${port}`,
    close: () => close(server),
  };
}

function listen(server: Server, { address, port, logger }: HttpServerOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const refuse = (cause: Error) => reject(cannotListen(address, port, cause));
    server.once("error", refuse);
    server.listen({ host: address, port, exclusive: true }, () => {
      server.off("error", refuse);
      server.on("error", (err) => logger.warn({ err }, "the server of metrics and probes failed"));
      resolve();
    });
  });
}

function cannotListen(address: string, port: number, cause: Error): Failure {
  const where = `observe.address ${address}, observe.port ${port}`;
  switch (systemCode(cause)) {
    case "EADDRINUSE":
      return new Failure({
        code: "invalid-config",
        what: "metrics and probes cannot be served: another program listens on the port",
        where,
        fix: "set observe.port to a free one, or stop the other program",
        cause,
      });
    default:
      return new Failure({
        code: "invalid-config",
        what: `metrics and probes cannot be served: ${cause.message}`,
        where,
        fix: "set observe.address to an address of this node or pod",
        cause,
      });
  }
}

async function respond(
  request: IncomingMessage,
  response: ServerResponse,
  { pages, logger }: HttpServerOptions,
): Promise<void> {
  // Whoever goes away in the middle of an answer is none of our business.
  response.on("error", () => undefined);
  const answer = await pageFor(request, pages).catch((err: unknown) => {
    logger.error({ err }, "a page could not be made");
    return text(500, `${describeThrown(err)}\n`);
  });
  response.writeHead(answer.status, {
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

async function pageFor(request: IncomingMessage, pages: HttpServerOptions["pages"]): Promise<Page> {
  const page = pages.get(request.url?.split("?", 1)[0] ?? "");
  if (page === undefined) return text(404, `there is: ${[...pages.keys()].join(", ")}\n`);
  if (request.method !== "GET" && request.method !== "HEAD") return text(405, "only GET and HEAD\n");
  return page();
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
