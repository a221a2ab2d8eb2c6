import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { wrongWithEvent, wrongWithSeries } from "./check-event.ts";
import { storedSlice, storedSpace, wrongWithClaimStatus, wrongWithSlice } from "./check-resource.ts";
import { type Json, ObjectStore, Refusal, type Stored, type StoreEvent } from "./object-store.ts";
import { eventSeenBy, metadataOf, selects } from "./selection.ts";
import { selfSigned } from "./self-signed.ts";

/** How a server behaves that is not well. */
export type Illness =
  | { readonly kind: "status"; readonly status: number; readonly retryAfter?: string }
  /** Never answers. */
  | { readonly kind: "silent" }
  /** Ends the connection in place of an answer, as a server does that has found it idle. */
  | { readonly kind: "closed" }
  /** Does what is asked, and its connection ends in the middle of the answer. */
  | { readonly kind: "half" }
  /** Answers without end. */
  | { readonly kind: "endless" }
  /** A proxy's page in place of the API's answer. */
  | { readonly kind: "html" };

const PATH =
  /^\/(?:api\/v1|apis\/([^/]+)\/[^/]+)(?:\/namespaces\/([^/]+))?\/([a-z-]+)(?:\/([^/]+)(?:\/(status))?)?$/;
const VERBS = { GET: "get", POST: "create", PUT: "update", PATCH: "patch", DELETE: "delete" } as const;
const MAX_BODY_BYTES = 3 * 1024 * 1024;

/** A client that wants only the metadata says so for an object or a watch, and for a list. */
const METADATA = /^application\/json;as=PartialObjectMetadata(List)?;g=meta\.k8s\.io;v=v1$/;

interface Watcher {
  readonly response: ServerResponse;
  readonly hasBookmarks: boolean;
  readonly query: URLSearchParams;
}

/**
 * An API server over TLS: tokens, RBAC, versions, conflicts, pages, watches and server-side apply as the real one has
 * them, for any resource; it holds events of events.k8s.io/v1, ResourceSlices and the status of ResourceClaims to their
 * rules. Illnesses at will.
 */
export class FakeApiServer {
  readonly ca: string;
  readonly store = new ObjectStore();
  /** Tokens that are valid now. */
  readonly tokens = new Set(["first"]);
  /** What the ServiceAccount may do. */
  readonly verbs = new Set([
    ...["get", "list", "watch", "create", "update", "patch", "delete"],
    // Of `resourceclaims/driver`, since Kubernetes 1.36.
    "associated-node:patch",
  ]);
  /** Namespaces that exist. */
  readonly namespaces = new Set(["default", "tenant"]);
  /** Versions of API groups that discovery names, the preferred one first. */
  readonly groups = new Map<string, readonly string[]>();
  /** Feature gate DRAConsumableCapacity. */
  canShareDevices = true;
  /** Method and status of every answer. */
  readonly answers: string[] = [];
  /** What it suffers from, one for each request; undefined is nothing. */
  readonly illnesses: (Illness | undefined)[] = [];
  /** Bytes that a watch sends at a time, so that lines and characters come in pieces; default all. */
  chunkBytes = Number.POSITIVE_INFINITY;
  readonly #watchers = new Set<Watcher>();
  readonly #server: Server;
  #answered = Promise.withResolvers<void>();

  private constructor() {
    const { cert, key } = selfSigned();
    this.ca = cert;
    this.store.admit = (collection, object, before) => this.#admit(collection, object, before);
    this.#server = createServer({ cert, key }, (request, response) => {
      request.on("error", () => undefined);
      response.on("error", () => undefined);
      void this.#answer(request, response);
    });
  }

  static async start(): Promise<FakeApiServer> {
    const api = new FakeApiServer();
    await new Promise<void>((resolve) => api.#server.listen(0, "127.0.0.1", resolve));
    return api;
  }

  get url(): string {
    return `https://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Events of all namespaces. */
  get events(): readonly Stored[] {
    return [...this.namespaces].flatMap((namespace) => this.store.all(`${namespace}/events`));
  }

  /** The query of each watch that is open. */
  get watches(): readonly URLSearchParams[] {
    return [...this.#watchers].map(({ query }) => query);
  }

  /** Resolves when it has so many answers behind it. */
  async hasAnswered(count: number): Promise<void> {
    while (this.answers.length < count) {
      this.#answered = Promise.withResolvers();
      await this.#answered.promise;
    }
  }

  /** Sends a bookmark to every watcher that asked for them. */
  sendBookmarks(): void {
    const object = { kind: "X", apiVersion: "v1", metadata: { resourceVersion: String(this.store.version) } };
    for (const watcher of this.#watchers)
      if (watcher.hasBookmarks) this.#line(watcher, { type: "BOOKMARK", object });
  }

  /** Sends raw bytes to every watcher. */
  sendRaw(text: string): void {
    for (const { response } of this.#watchers) response.write(text);
  }

  /** Ends watches as their timeoutSeconds would, or cuts their connections. */
  endWatches(how: "orderly" | "cut" = "orderly"): void {
    for (const { response } of this.#watchers)
      if (how === "orderly") response.end();
      else response.destroy();
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
    const note = (what: string | number) => this.#note(`${request.method} ${what}`);
    const send = (status: number, body: Json, headers: Record<string, string> = {}) => {
      const text = JSON.stringify(body);
      response.writeHead(status, { "content-type": "application/json", ...headers });
      if (illness?.kind === "half") {
        response.write(text.slice(0, 10));
        setImmediate(() => response.destroy());
      } else response.end(text);
      note(status);
    };
    switch (illness?.kind) {
      case "silent":
        return note("silent");
      case "closed":
        response.destroy();
        return note("closed");
      case "html":
        response.writeHead(200, { "content-type": "text/html" }).end("<html>log in</html>");
        return note("html");
      case "endless":
        response.writeHead(200);
        response.on("drain", () => response.write(Buffer.alloc(65_536)));
        while (response.write(Buffer.alloc(65_536))) if (response.destroyed) break;
        return note("endless");
      case "status": {
        const { status, retryAfter } = illness;
        const headers = retryAfter === undefined ? {} : { "retry-after": retryAfter };
        return send(
          status,
          new Refusal(status, "Ill", "it is not well").status,
          headers as Record<string, string>,
        );
      }
    }
    try {
      const [code, body] = this.#handle(request, Buffer.concat(chunks), response) ?? [];
      if (code !== undefined && body !== undefined) send(code, body);
      else note("watch");
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      send(error.code, error.status);
    }
  }

  #note(what: string): void {
    this.answers.push(what);
    this.#answered.resolve();
  }

  /** @returns status and body; undefined for a watch, which stays open */
  #handle(
    request: IncomingMessage,
    bytes: Buffer,
    response: ServerResponse,
  ): readonly [number, Json] | undefined {
    const { pathname, searchParams: query } = new URL(request.url ?? "", "https://localhost");
    const versions = request.method === "GET" ? this.groups.get(pathname.replace("/apis/", "")) : undefined;
    if (versions !== undefined) return [200, groupOf(pathname.replace("/apis/", ""), versions)];
    const [path, group = "", namespace, plural = "", name, part] = PATH.exec(pathname) ?? [];
    if (path === undefined)
      throw new Refusal(404, "NotFound", "the server could not find the requested resource");
    const method = request.method as keyof typeof VERBS;
    const isWatch = method === "GET" && query.get("watch") === "true";
    const verb = isWatch ? "watch" : method === "GET" && name === undefined ? "list" : VERBS[method];
    if (!this.tokens.has(/^Bearer (\S+)$/.exec(request.headers.authorization ?? "")?.[1] ?? ""))
      throw new Refusal(401, "Unauthorized", "Unauthorized");
    if (group === "authorization.k8s.io" && plural === "selfsubjectaccessreviews" && method === "POST")
      return [201, this.#review(JSON.parse(bytes.toString("utf8")) as Json)];
    if (!this.verbs.has(verb)) {
      const what = `cannot ${verb} resource "${plural}" in API group "${group}"`;
      throw new Refusal(403, "Forbidden", `${plural}.${group} is forbidden: User ${what}`);
    }
    if (namespace !== undefined && !this.namespaces.has(namespace) && (verb === "create" || verb === "patch"))
      throw new Refusal(404, "NotFound", `namespaces "${namespace}" not found`);
    if (bytes.length > MAX_BODY_BYTES)
      throw new Refusal(413, "RequestEntityTooLarge", "the request is too large");
    const collection = namespace === undefined ? plural : `${namespace}/${plural}`;
    const shape = shapeOf(request.headers.accept, verb === "list");
    if (verb === "watch") return this.#watch(collection, query, response, shape);
    if (verb === "list") return [200, this.#list(collection, query, shape)];
    if (verb === "get") return [200, shape(this.store.get(collection, name ?? ""))];
    return this.#write(
      verb,
      { collection, plural, namespace, name: name ?? "", part, query },
      request,
      bytes,
    );
  }

  /** Every token may ask what it may do; the node of a claim is taken for that of the token. */
  #review({ metadata = {}, spec }: Json): Json {
    const { resourceAttributes } = (spec ?? {}) as Json;
    const { verb = "", resource } = (resourceAttributes ?? {}) as Readonly<Record<string, string>>;
    if (Object.keys(metadata as Json).length > 0 || resource === undefined)
      throw new Refusal(422, "Invalid", "metadata: must be empty, spec.resourceAttributes: required");
    const allowed = this.verbs.has(verb.replace("associated-node:", ""));
    return {
      kind: "SelfSubjectAccessReview",
      metadata: { creationTimestamp: null },
      spec,
      status: { allowed },
    };
  }

  #write(
    verb: "create" | "update" | "patch" | "delete",
    to: {
      collection: string;
      plural: string;
      namespace?: string | undefined;
      name: string;
      part?: string | undefined;
      query: URLSearchParams;
    },
    request: IncomingMessage,
    bytes: Buffer,
  ): readonly [number, Json] {
    const { collection, name, part, query } = to;
    const type = request.headers["content-type"] ?? "";
    const known = ["application/merge-patch+json", "application/apply-patch+yaml"];
    if (!(verb === "patch" ? known : ["application/json"]).includes(type))
      throw new Refusal(415, "UnsupportedMediaType", type);
    const body = JSON.parse(bytes.toString("utf8")) as Json;
    if (to.plural === "events") checkEvent(verb, to.namespace ?? "", body);
    if (verb === "create") return [201, this.store.create(collection, body, query.get("dryRun") === "All")];
    if (verb === "update") return [200, this.store.update(collection, name, body, part)];
    if (verb === "delete") {
      const preconditions = (body["preconditions"] ?? {}) as Json;
      return [200, this.store.remove(collection, name, preconditions)];
    }
    if (type === known[0]) return [200, this.store.merge(collection, name, body, part)];
    const manager = query.get("fieldManager");
    if (manager === null) throw new Refusal(400, "BadRequest", "fieldManager is required for apply patch");
    return [200, this.store.apply(collection, name, body, manager, query.get("force") === "true")];
  }

  #admit(collection: string, object: Json, before: Stored | undefined): Json {
    const isSlice = collection === "resourceslices";
    const wrong = isSlice
      ? wrongWithSlice(object, before)
      : collection.endsWith("/resourceclaims")
        ? [...wrongWithClaimStatus(object), ...this.#forbiddenInClaim(object, before)]
        : [];
    if (wrong.length > 0) throw new Refusal(422, "Invalid", wrong.join("; "));
    if (collection === "addressspaces") return storedSpace(object);
    return isSlice ? storedSlice(object, this.canShareDevices) : object;
  }

  /** Feature gate DRAResourceClaimGranularStatusAuthorization: a right that is missing makes the object invalid. */
  #forbiddenInClaim(claim: Json, before: Stored | undefined): readonly string[] {
    const devices = (of: Json | undefined) => JSON.stringify(((of?.["status"] ?? {}) as Json)["devices"]);
    if (this.verbs.has("associated-node:patch") || devices(claim) === devices(before)) return [];
    const right = 'resource="resourceclaims/driver", verb="[associated-node:patch arbitrary-node:patch]"';
    return [`status.devices: Forbidden: changing status.devices requires ${right} permission`];
  }

  #list(collection: string, query: URLSearchParams, shape: (object: Stored) => Json): Json {
    const limit = Number(query.get("limit") ?? 0);
    const { items, version, next } = this.store.page(
      collection,
      selects(Object.fromEntries(query)),
      limit,
      query.get("continue"),
    );
    const metadata = { resourceVersion: String(version), ...(next === undefined ? {} : { continue: next }) };
    // So does Kubernetes 1.36.
    const isEmpty = shape === metadataOf && items.length === 0;
    return { kind: "List", apiVersion: "v1", metadata, items: isEmpty ? null : items.map(shape) };
  }

  #watch(
    collection: string,
    query: URLSearchParams,
    response: ServerResponse,
    shape: (object: Stored) => Json,
  ): undefined {
    const watcher = { response, query, hasBookmarks: query.get("allowWatchBookmarks") === "true" };
    const passes = selects(Object.fromEntries(query));
    const onEvent = (event: StoreEvent) => {
      const seen = eventSeenBy(event, collection, passes);
      if (seen !== undefined) this.#line(watcher, { ...seen, object: shape(seen.object) });
    };
    response.writeHead(200, { "content-type": "application/json", "transfer-encoding": "chunked" });
    response.flushHeaders();
    this.#watchers.add(watcher);
    response.once("close", () => this.#watchers.delete(watcher));
    try {
      const stop = this.store.follow(Number(query.get("resourceVersion") ?? 0), onEvent);
      response.once("close", stop);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.#line(watcher, { type: "ERROR", object: error.status });
      response.end();
    }
    return undefined;
  }

  #line({ response }: Watcher, event: object): void {
    const bytes = Buffer.from(`${JSON.stringify(event)}\n`);
    const size = Math.min(this.chunkBytes, bytes.length);
    for (let from = 0; from < bytes.length; from += size) response.write(bytes.subarray(from, from + size));
  }
}

/** Discovery's answer about a group (meta/v1, APIGroup). */
function groupOf(name: string, served: readonly string[]): Json {
  const versions = served.map((version) => ({ groupVersion: `${name}/${version}`, version }));
  return { kind: "APIGroup", apiVersion: "v1", name, versions, preferredVersion: versions[0] };
}

/** What an answer has of an object. @throws Refusal 406 */
function shapeOf(accept: string | undefined, isList: boolean): (object: Stored) => Json {
  if (accept === "application/json" || accept === "*/*") return (object) => object;
  const [wanted, list] = METADATA.exec(accept ?? "") ?? [];
  if (wanted === undefined || (list !== undefined) !== isList)
    throw new Refusal(406, "NotAcceptable", `the body cannot be encoded as ${accept}`);
  return metadataOf;
}

function checkEvent(verb: string, namespace: string, body: Json): void {
  const { series, ...immutable } = body;
  const wrong =
    verb === "create"
      ? wrongWithEvent(body, namespace)
      : [
          ...Object.keys(immutable).map((key) => `${key}: field is immutable`),
          ...wrongWithSeries(series as Json | undefined),
        ];
  if (wrong.length > 0) throw new Refusal(422, "Invalid", wrong.join("; "));
}
