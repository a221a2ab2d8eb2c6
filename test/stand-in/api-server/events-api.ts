import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { type Json, wrongWithEvent, wrongWithSeries } from "./check-event.ts";
import { selfSigned } from "./self-signed.ts";

/** How a server behaves that is not well. */
export type Illness =
  | { readonly kind: "status"; readonly status: number; readonly retryAfter?: string }
  /** Never answers. */
  | { readonly kind: "silent" }
  /** Makes the event, and its connection ends in the middle of the answer. */
  | { readonly kind: "half" }
  /** Answers without end. */
  | { readonly kind: "endless" };

/** An event that the server has. */
export interface StoredEvent {
  readonly namespace: string;
  readonly name: string;
  readonly object: Json;
}

const PATH = /^\/apis\/events\.k8s\.io\/v1\/namespaces\/([^/]+)\/events(?:\/([^/]+))?$/;

/**
 * An API server over TLS that knows events.k8s.io/v1 and nothing else: tokens, RBAC, names, validation and conflicts as
 * the real one has them, and illnesses at will.
 */
export class EventsApi {
  readonly ca: string;
  /** Tokens that are good now. */
  readonly tokens = new Set(["first"]);
  /** What the ServiceAccount may do. */
  readonly verbs = new Set(["create", "patch"]);
  /** Namespaces that are there. */
  readonly namespaces = new Set(["default", "tenant"]);
  readonly events = new Map<string, StoredEvent>();
  /** Method and status of every answer. */
  readonly answers: string[] = [];
  /** What it suffers from, one for each request, then none. */
  readonly illnesses: Illness[] = [];
  readonly #server: Server;
  #answered = Promise.withResolvers<void>();

  private constructor() {
    const { cert, key } = selfSigned();
    this.ca = cert;
    this.#server = createServer({ cert, key }, (request, response) => {
      request.on("error", () => undefined);
      response.on("error", () => undefined);
      void this.#answer(request, response);
    });
  }

  static async start(): Promise<EventsApi> {
    const api = new EventsApi();
    await new Promise<void>((resolve) => api.#server.listen(0, "127.0.0.1", resolve));
    return api;
  }

  get url(): string {
    return `https://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Resolves when it has so many answers behind it. */
  async hasAnswered(count: number): Promise<void> {
    while (this.answers.length < count) {
      this.#answered = Promise.withResolvers();
      await this.#answered.promise;
    }
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const illness = this.illnesses.shift();
    const send = (status: number, body: Json, headers: Record<string, string> = {}) => {
      const text = JSON.stringify(body);
      response.writeHead(status, { "content-type": "application/json", ...headers });
      if (illness?.kind === "half") {
        response.write(text.slice(0, 10));
        setImmediate(() => response.destroy());
      } else response.end(text);
      this.#note(`${request.method} ${status}`);
    };
    if (illness?.kind === "silent") return this.#note(`${request.method} silent`);
    if (illness?.kind === "endless") {
      response.writeHead(200);
      response.on("drain", () => response.write(Buffer.alloc(65_536)));
      while (response.write(Buffer.alloc(65_536))) if (response.destroyed) break;
      return this.#note(`${request.method} endless`);
    }
    if (illness?.kind === "status") {
      const headers = illness.retryAfter === undefined ? {} : { "retry-after": illness.retryAfter };
      return send(
        illness.status,
        status(illness.status, "Ill", "it is not well"),
        headers as Record<string, string>,
      );
    }
    const [code, body] = this.#handle(request, Buffer.concat(chunks).toString("utf8"));
    return send(code, body);
  }

  #note(what: string): void {
    this.answers.push(what);
    this.#answered.resolve();
  }

  #handle(request: IncomingMessage, text: string): readonly [number, Json] {
    const [, namespace = "", name] = PATH.exec(request.url ?? "") ?? [];
    if (namespace === "")
      return [404, status(404, "NotFound", "the server could not find the requested resource")];
    const [, token = ""] = /^Bearer (\S+)$/.exec(request.headers.authorization ?? "") ?? [];
    if (!this.tokens.has(token)) return [401, status(401, "Unauthorized", "Unauthorized")];
    const verb =
      request.method === "POST" && name === undefined ? "create" : request.method === "PATCH" ? "patch" : "";
    if (verb === "") return [405, status(405, "MethodNotAllowed", "the server does not allow this method")];
    if (!this.verbs.has(verb)) {
      const message = `events.events.k8s.io is forbidden: User cannot ${verb} resource "events" in API group "events.k8s.io"`;
      return [403, status(403, "Forbidden", message)];
    }
    const expected = verb === "create" ? "application/json" : "application/merge-patch+json";
    if (request.headers["content-type"] !== expected)
      return [415, status(415, "UnsupportedMediaType", String(request.headers["content-type"]))];
    if (!this.namespaces.has(namespace))
      return [404, status(404, "NotFound", `namespaces "${namespace}" not found`)];
    const body = JSON.parse(text) as Json;
    return verb === "create" ? this.#create(namespace, body) : this.#patch(namespace, name ?? "", body);
  }

  #create(namespace: string, object: Json): readonly [number, Json] {
    const wrong = wrongWithEvent(object, namespace);
    if (wrong.length > 0) return [422, status(422, "Invalid", wrong.join("; "))];
    const { name } = object["metadata"] as { readonly name: string };
    const key = `${namespace}/${name}`;
    if (this.events.has(key))
      return [409, status(409, "AlreadyExists", `events.events.k8s.io "${name}" already exists`)];
    this.events.set(key, { namespace, name, object });
    return [201, object];
  }

  #patch(namespace: string, name: string, change: Json): readonly [number, Json] {
    const stored = this.events.get(`${namespace}/${name}`);
    if (stored === undefined)
      return [404, status(404, "NotFound", `events.events.k8s.io "${name}" not found`)];
    const { series, ...immutable } = change;
    const wrong = [
      ...Object.keys(immutable).map((key) => `${key}: field is immutable`),
      ...wrongWithSeries(series as Json | undefined),
    ];
    if (wrong.length > 0) return [422, status(422, "Invalid", wrong.join("; "))];
    const object = { ...stored.object, series };
    this.events.set(`${namespace}/${name}`, { ...stored, object });
    return [200, object];
  }
}

function status(code: number, reason: string, message: string): Json {
  return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", message, reason, code };
}
