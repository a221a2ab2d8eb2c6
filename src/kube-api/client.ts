import { readFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import type { Agent } from "node:https";
import { join } from "node:path";
import { describeThrown, systemCode } from "../failure/failure.ts";
import { bodyOf, parsed } from "./answer-body.ts";
import { ApiFailure, failureOf } from "./api-failure.ts";
import { acceptOf, pathOf, type Resource } from "./resource.ts";

export type { Resource } from "./resource.ts";

/** How to reach the API server. */
export interface KubeApiOptions {
  /** Without a path, for example `https://10.96.0.1:443`. */
  readonly url: string;
  /** Directory of a ServiceAccount's `token` and `ca.crt`, read for each request because kubelet renews both. */
  readonly serviceAccountDirectory: string;
  /** Milliseconds for one request, and for a watch to open; default 10,000. */
  readonly deadlineMs?: number;
}

/** An object of the API; its reader checks what is beside the metadata. */
export interface KubeObject {
  readonly metadata: {
    readonly name: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly [field: string]: unknown;
  };
  readonly [field: string]: unknown;
}

/** Which objects of a resource to list or watch. */
export interface Selection {
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

/** A change by fields (RFC 7386), or a server-side apply. */
export type Patch =
  | { readonly type: "merge"; readonly body: object }
  | {
      readonly type: "apply";
      readonly body: object;
      readonly fieldManager: string;
      readonly force?: boolean;
    };

interface Request {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly query?: Readonly<Record<string, string | boolean | undefined>>;
  readonly contentType?: string;
  readonly accept?: string;
  readonly body?: object;
}

const DEADLINE_MS = 10_000;
/** Nodes may have 50 KiB each. */
const PAGE_SIZE = 250;
const MAX_PAGES = 2_000;
/** A list whose continue token expires more often is too slow for its server. */
const MAX_LIST_STARTS = 3;
const MAX_CONNECTIONS = 4;
const KEEPALIVE_MS = 30_000;

/**
 * The part of the Kubernetes API that we use, over Node's own HTTPS. Every method rejects with an {@link ApiFailure}, or
 * with the signal's reason.
 */
export class KubeApi {
  readonly #options: KubeApiOptions;
  #agent: { readonly ca: string; readonly agent: Agent } | undefined;

  constructor(options: KubeApiOptions) {
    this.#options = options;
  }

  get(resource: Resource, name: string, signal: AbortSignal): Promise<KubeObject> {
    const [path, accept] = [pathOf(resource, name), acceptOf(resource, "")];
    return this.#object({ method: "GET", path, accept }, signal);
  }

  /**
   * Lists in pages; a list whose continue token expires on the way (410) starts again.
   * @param keep what is kept of each object, so that a long list is never in memory as a whole
   */
  async list(
    resource: Resource,
    selection: Selection,
    signal: AbortSignal,
    keep: (object: KubeObject) => KubeObject = (object) => object,
  ) {
    for (let start = 1; ; start++) {
      try {
        return await this.#listOnce(resource, selection, signal, keep);
      } catch (error) {
        const isExpired = error instanceof ApiFailure && error.problem === "expired";
        if (!isExpired || start === MAX_LIST_STARTS) throw error;
      }
    }
  }

  /** @returns the object as the API server has it, or would have it: a dry run is checked as the other, and not stored */
  create(
    resource: Resource,
    body: object,
    signal: AbortSignal,
    { isDryRun = false }: { readonly isDryRun?: boolean } = {},
  ): Promise<KubeObject> {
    const query = isDryRun ? { dryRun: "All" } : {};
    return this.#object({ method: "POST", path: pathOf(resource), body, query }, signal);
  }

  /** Replaces an object; `conflict` where its resourceVersion is not the current one. */
  update(resource: Resource, body: KubeObject, signal: AbortSignal): Promise<KubeObject> {
    return this.#object({ method: "PUT", path: pathOf(resource, body.metadata.name), body }, signal);
  }

  patch(resource: Resource, name: string, patch: Patch, signal: AbortSignal): Promise<KubeObject> {
    const { type, body, ...query } = patch;
    const contentType = `application/${type === "merge" ? "merge-patch+json" : "apply-patch+yaml"}`;
    const path = pathOf(resource, name);
    return this.#object({ method: "PATCH", path, body, contentType, query }, signal);
  }

  /** Deletes an object; `conflict` where it is not the one that the preconditions name. */
  async delete(
    resource: Resource,
    name: string,
    preconditions: { readonly uid?: string; readonly resourceVersion?: string },
    signal: AbortSignal,
  ): Promise<void> {
    const body = { apiVersion: "v1", kind: "DeleteOptions", preconditions };
    await this.#json({ method: "DELETE", path: pathOf(resource, name), body }, signal);
  }

  /** Sends an object that is answered and not stored, such as a review. */
  ask(resource: Resource, body: object, signal: AbortSignal): Promise<object> {
    return this.#json({ method: "POST", path: pathOf(resource), body }, signal);
  }

  /** Versions of an API group that are served, the preferred one first (discovery); none where the group is unknown. */
  async servedVersions(group: string, signal: AbortSignal): Promise<readonly string[]> {
    const path = `/apis/${encodeURIComponent(group)}`;
    try {
      const { versions } = (await this.#json({ method: "GET", path }, signal)) as {
        readonly versions?: unknown;
      };
      if (!Array.isArray(versions))
        throw new ApiFailure("unreachable", "the answer is not an API group", `GET ${path}`);
      return versions.map(({ version }: { readonly version?: unknown }) => String(version));
    } catch (error) {
      if (error instanceof ApiFailure && error.problem === "not-found") return [];
      throw error;
    }
  }

  /** Opens a watch on a connection of its own, which its reader ends by destroying the answer. */
  openWatch(resource: Resource, query: Request["query"], signal: AbortSignal): Promise<IncomingMessage> {
    const [path, accept] = [pathOf(resource), acceptOf(resource, "")];
    const request: Request = { method: "GET", path, query: { ...query, watch: "true" }, accept };
    return this.#guarded(request, signal, () => this.#open(request, signal, true));
  }

  close(): void {
    this.#agent?.agent.destroy();
    this.#agent = undefined;
  }

  async #listOnce(
    resource: Resource,
    selection: Selection,
    signal: AbortSignal,
    keep: (object: KubeObject) => KubeObject,
  ) {
    const objects: KubeObject[] = [];
    let next: string | undefined;
    for (let page = 0; page < MAX_PAGES; page++) {
      const query = { ...selection, limit: String(PAGE_SIZE), continue: next };
      const accept = acceptOf(resource, "List");
      const request: Request = { method: "GET", path: pathOf(resource), query, accept };
      const { items: listed, metadata } = (await this.#json(request, signal)) as {
        readonly items?: unknown; // null for an empty list of metadata (Kubernetes 1.36)
        readonly metadata?: { readonly resourceVersion?: unknown; readonly continue?: unknown };
      };
      const [items, resourceVersion] = [listed === null ? [] : listed, metadata?.resourceVersion];
      if (!Array.isArray(items) || !items.every(isObject) || typeof resourceVersion !== "string")
        throw new ApiFailure("unreachable", "the answer is not a list", whereOf(request));
      objects.push(...items.map(keep));
      next = typeof metadata?.continue === "string" ? metadata.continue : "";
      if (next === "") return { objects, resourceVersion };
    }
    const what = `the list has more than ${MAX_PAGES * PAGE_SIZE} objects`;
    throw new ApiFailure("invalid", what, `GET ${pathOf(resource)}`);
  }

  async #object(request: Request, signal: AbortSignal): Promise<KubeObject> {
    const answer = await this.#json(request, signal);
    if (isObject(answer)) return answer;
    throw new ApiFailure("unreachable", "the answer is not an object of the API", whereOf(request));
  }

  #json(request: Request, signal: AbortSignal): Promise<object> {
    return this.#guarded(request, signal, async () => {
      const answer: unknown = JSON.parse(await bodyOf(await this.#open(request, signal, false)));
      return typeof answer === "object" && answer !== null ? answer : {};
    });
  }

  async #guarded<Value>(request: Request, signal: AbortSignal, work: () => Promise<Value>): Promise<Value> {
    try {
      return await work();
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ApiFailure) throw error;
      const what = `no answer of the Kubernetes API server at ${this.#options.url}: ${describeThrown(error)}`;
      throw new ApiFailure("unreachable", what, whereOf(request));
    }
  }

  /** Sends a request and waits for the head of a successful answer. */
  async #open(request: Request, signal: AbortSignal, isWatch: boolean): Promise<IncomingMessage> {
    const { url, serviceAccountDirectory: directory, deadlineMs = DEADLINE_MS } = this.#options;
    const [token, ca] = await Promise.all(
      ["token", "ca.crt"].map((file) => readFile(join(directory, file), { encoding: "utf8", signal })),
    );
    const target = new URL(request.path, url);
    for (const [key, value] of Object.entries(request.query ?? {}))
      if (value !== undefined) target.searchParams.set(key, String(value));
    const body = request.body === undefined ? undefined : JSON.stringify(request.body);
    const send = (): Promise<IncomingMessage> => {
      const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
      const sent = loadHttps().request(target, {
        method: request.method,
        ...(isWatch ? { agent: false, ca } : { agent: this.#agentFor(ca ?? "") }),
        signal,
        headers: {
          authorization: `Bearer ${token?.trim()}`,
          accept: request.accept ?? "application/json",
          "user-agent": "kube-vhostuser",
          "content-length": Buffer.byteLength(body ?? ""),
          ...(body !== undefined && { "content-type": request.contentType ?? "application/json" }),
        },
      });
      let answer: IncomingMessage | undefined;
      const expire = () => (answer ?? sent).destroy(new Error("not within the deadline"));
      const timer = setTimeout(expire, deadlineMs);
      sent.on("close", () => clearTimeout(timer));
      sent.on("error", (error) => {
        // A server may end an idle connection at the moment it is used; a read can be repeated on another.
        const isIdleEnd = sent.reusedSocket && answer === undefined && systemCode(error) === "ECONNRESET";
        return isIdleEnd && request.method === "GET" ? resolve(send()) : reject(error);
      });
      sent.on("response", (found) => {
        answer = found;
        if (isWatch && found.statusCode === 200) clearTimeout(timer);
        resolve(found);
      });
      // A watch may be quiet for minutes; the kernel notices a connection that is dead.
      sent.setSocketKeepAlive(true, KEEPALIVE_MS);
      sent.end(body);
      return promise;
    };
    const response = await send();
    const { statusCode: status = 0, headers } = response;
    if (status >= 200 && status < 300) return response;
    throw failureOf(status, parsed(await bodyOf(response)), whereOf(request), headers["retry-after"]);
  }

  #agentFor(ca: string): Agent {
    if (this.#agent?.ca === ca) return this.#agent.agent;
    this.close();
    const agent = new (loadHttps().Agent)({ ca, keepAlive: true, maxSockets: MAX_CONNECTIONS });
    this.#agent = { ca, agent };
    return agent;
  }
}

/** Whether this is an object with a name; items of a list lack kind and apiVersion. */
export function isObject(value: unknown): value is KubeObject {
  const { metadata } = (value ?? {}) as { readonly metadata?: { readonly name?: unknown } | null };
  return typeof metadata?.name === "string" && metadata.name !== "";
}

/** Loaded at the first request: a daemon without events does without TLS, which is some megabytes. */
function loadHttps(): typeof import("node:https") {
  return process.getBuiltinModule("node:https");
}

function whereOf({ method, path }: Request): string {
  return `${method} ${path}`;
}
