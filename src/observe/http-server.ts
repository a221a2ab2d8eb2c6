import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { describeThrown, Failure, systemCode } from "../failure/failure.ts";
import { listenPrivately } from "../files/listen-privately.ts";
import type { Logger } from "../logging/logger.ts";

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
      /** Unix socket of mode 0600. */
      readonly socketPath: string;
      /** The option that it comes from, for errors. */
      readonly socketOption: string;
    };

/** Where to listen and what to answer. */
export type HttpServerOptions = HttpPlace & {
  /** By exact path: nothing of a request is ever part of a file's name. */
  readonly pages: ReadonlyMap<string, (query: URLSearchParams) => Promise<Page>>;
  /** The same for requests that have something done, by POST. */
  readonly actions?: ReadonlyMap<string, (query: URLSearchParams) => Promise<Page>>;
  /** @returns what a request is refused with; undefined to answer it */
  readonly refuse?: (request: IncomingMessage) => Page | undefined;
  /** Headers of every answer, unless its page has others. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Milliseconds after which an idle connection is closed; default 30,000. */
  readonly idleMs?: number;
  readonly logger: Logger;
};

/** A server that runs until it is closed. */
export interface HttpServer {
  /** Without a slash at its end; `unix:` and the path of a socket. */
  readonly url: string;
  /** Accepts no more requests and waits up to a second for those that run. */
  close(): Promise<void>;
}

/** For a request, which is a line and some headers. */
const REQUEST_MS = 5_000;
/** Longer than kubelet and a switch may take to answer. */
const IDLE_MS = 30_000;
const MAX_HEADER_BYTES = 8 * 1024;
const MAX_CONNECTIONS = 32;
const CLOSE_MS = 1_000;

/**
 * Serves pages over HTTP, with bounds on time, headers and connections.
 * @throws Failure `invalid-config` when the address cannot be listened on
 */
export async function serveHttp(options: HttpServerOptions): Promise<HttpServer> {
  const answering = new WeakSet<Socket>();
  const server = createServer(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: REQUEST_MS,
      requestTimeout: REQUEST_MS,
      connectionsCheckingInterval: REQUEST_MS,
    },
    (request, response) => {
      const { socket } = request;
      // Pipelined requests would pile up answers.
      if (answering.has(socket)) return void socket.destroy();
      answering.add(socket);
      response.once("close", () => answering.delete(socket));
      void respond(request, response, options);
    },
  );
  limitConnections(server);
  server.setTimeout(options.idleMs ?? IDLE_MS);
  try {
    if ("socketPath" in options) await listenPrivately(server, options.socketPath);
    else await listen(server, options.address, options.port);
  } catch (error) {
    throw cannotListen(options, error);
  }
  server.on("error", (err) => options.logger.warn({ err }, "an HTTP server failed"));
  return { url: urlOf(server, options), close: () => close(server) };
}

/** One connection too many costs the caller with most of them its latest, so that kubelet's probes get through. */
function limitConnections(server: Server): void {
  const open = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    if (open.size <= MAX_CONNECTIONS) return;
    const callers = [...Map.groupBy(open, ({ remoteAddress = "" }) => remoteAddress).values()];
    const latest = callers.reduce((most, one) => (one.length > most.length ? one : most)).at(-1);
    if (latest === undefined) return;
    open.delete(latest);
    latest.destroy();
  });
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port, exclusive: true }, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

function cannotListen(place: HttpPlace, cause: unknown): Failure {
  if ("socketPath" in place) {
    const { socketPath, socketOption } = place;
    return new Failure({
      code: "invalid-config",
      what: `the node's status cannot be served: ${describeThrown(cause)}`,
      where: `${socketOption}, socket ${socketPath}`,
      fix: `set ${socketOption} to a path in a directory that the program may write; that of the socket has at most 103 bytes`,
      cause,
    });
  }
  const { address, port, named: { what, key } = { what: "metrics and probes", key: "observe" } } = place;
  const isTaken = systemCode(cause) === "EADDRINUSE";
  return new Failure({
    code: "invalid-config",
    what: `${what} cannot be served: ${isTaken ? "another program listens on the port" : describeThrown(cause)}`,
    where: `${key}.address ${address}, ${key}.port ${port}`,
    fix: isTaken
      ? `set ${key}.port to a free one, or stop the other program`
      : `set ${key}.address to an address of this node or pod`,
    cause,
  });
}

function urlOf(server: Server, place: HttpPlace): string {
  if ("socketPath" in place) return `unix:${place.socketPath}`;
  const { address, port, family } = server.address() as AddressInfo;
  return `http://${family === "IPv6" ? `[${address}]` : address}:${port}`;
}

async function respond(
  request: IncomingMessage,
  response: ServerResponse,
  options: HttpServerOptions,
): Promise<void> {
  // A caller that leaves in the middle of an answer is not an error of ours.
  response.on("error", () => undefined);
  const answer = await pageFor(request, options).catch((err: unknown) => {
    options.logger.error({ err }, "an HTTP request failed");
    return text(500, `${describeThrown(err)}\n`);
  });
  const { "transfer-encoding": encoding, "content-length": length = "0" } = request.headers;
  response.writeHead(answer.status, {
    ...options.headers,
    ...answer.headers,
    "content-type": answer.contentType,
    "content-length": Buffer.byteLength(answer.body),
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    // A body that is not read must not be taken for the next request.
    ...(encoding === undefined && length === "0" ? {} : { connection: "close" }),
  });
  response.end(request.method === "HEAD" ? undefined : answer.body);
}

async function pageFor(
  request: IncomingMessage,
  { pages, actions = new Map(), refuse }: HttpServerOptions,
): Promise<Page> {
  const refused = refuse?.(request);
  if (refused !== undefined) return refused;
  const [path = "", query] = request.url?.split("?", 2) ?? [];
  const page = pages.get(path) ?? actions.get(path);
  if (page === undefined) return text(404, `there is: ${[...pages.keys(), ...actions.keys()].join(", ")}\n`);
  const methods = pages.has(path) ? ["GET", "HEAD"] : ["POST"];
  if (!methods.includes(request.method ?? ""))
    return { ...text(405, `only ${methods.join(" and ")}\n`), headers: { allow: methods.join(", ") } };
  return page(new URLSearchParams(query));
}

/** A page of plain text. */
export function text(status: number, body: string): Page {
  return { status, contentType: "text/plain; charset=utf-8", body };
}

async function close(server: Server): Promise<void> {
  const force = setTimeout(() => server.closeAllConnections(), CLOSE_MS);
  await new Promise<void>((resolve) => server.close(() => resolve()));
  clearTimeout(force);
}
