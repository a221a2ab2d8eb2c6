import { readFile } from "node:fs/promises";
import type { Agent } from "node:https";
import { join } from "node:path";
import { describeThrown } from "../failure/failure.ts";
import { within } from "../sync/deadlines.ts";

/** How to reach the API server. */
export interface ApiServerOptions {
  /** Without a path, for example `https://10.96.0.1:443`. */
  readonly url: string;
  /** Directory of a ServiceAccount's `token` and `ca.crt`. Kubelet renews both while we run. */
  readonly serviceAccountDirectory: string;
  /** Milliseconds for one request. */
  readonly deadlineMs?: number;
}

/** What a request came to. */
export type ApiOutcome =
  | { readonly kind: "done" }
  /** There is an object of this name (409), or none (404). */
  | { readonly kind: "exists" | "missing" }
  /** It may go well later; `afterMs` where the server says when. */
  | { readonly kind: "later"; readonly reason: string; readonly afterMs?: number }
  /** It will not go well, however often it is tried. */
  | { readonly kind: "refused"; readonly reason: string };

interface Answer {
  readonly status: number;
  readonly body: string;
  readonly retryAfterMs: number | undefined;
}

const DEADLINE_MS = 5_000;
/** Of an answer nothing but the message of a refusal is of interest. */
const MAX_BODY_BYTES = 64 * 1024;
const MAX_REASON = 300;
/** A server that names a longer time is asked again after this one. */
const MAX_RETRY_AFTER_MS = 60_000;

/** The part of the Kubernetes API that events need: making one, and telling how often it has happened. */
export class ApiServer {
  readonly #options: ApiServerOptions;
  #agent: { readonly ca: string; readonly agent: Agent } | undefined;

  constructor(options: ApiServerOptions) {
    this.#options = options;
  }

  /** Makes an event. Never rejects, but with the signal's reason. */
  async create(namespace: string, event: object, signal: AbortSignal): Promise<ApiOutcome> {
    const outcome = await this.#ask("POST", eventsPath(namespace), "application/json", event, signal);
    // Without its namespace an event has no place, now or later.
    return outcome.kind === "missing"
      ? { kind: "refused", reason: `there is no namespace ${namespace}` }
      : outcome;
  }

  /** Changes an event's series. Never rejects, but with the signal's reason. */
  async patch(namespace: string, name: string, change: object, signal: AbortSignal): Promise<ApiOutcome> {
    const path = `${eventsPath(namespace)}/${encodeURIComponent(name)}`;
    const outcome = await this.#ask("PATCH", path, "application/merge-patch+json", change, signal);
    return outcome.kind === "exists"
      ? { kind: "later", reason: "somebody else changed the event at the same time" }
      : outcome;
  }

  close(): void {
    this.#agent?.agent.destroy();
    this.#agent = undefined;
  }

  async #ask(
    method: "POST" | "PATCH",
    path: string,
    contentType: string,
    body: object,
    signal: AbortSignal,
  ): Promise<ApiOutcome> {
    const limit = within(signal, this.#options.deadlineMs ?? DEADLINE_MS);
    try {
      return judge(await this.#send(method, path, contentType, JSON.stringify(body), limit));
    } catch (error) {
      signal.throwIfAborted();
      const reason = limit.aborted ? "no answer in time" : describeThrown(error);
      return { kind: "later", reason: `${this.#options.url}: ${reason}` };
    }
  }

  async #send(
    method: string,
    path: string,
    contentType: string,
    body: string,
    signal: AbortSignal,
  ): Promise<Answer> {
    const { url, serviceAccountDirectory } = this.#options;
    // Read for each request: kubelet replaces a token before it expires.
    const [token, ca] = await Promise.all([
      readFile(join(serviceAccountDirectory, "token"), { encoding: "utf8", signal }),
      readFile(join(serviceAccountDirectory, "ca.crt"), { encoding: "utf8", signal }),
    ]);
    const agent = this.#agentFor(ca);
    return new Promise((resolve, reject) => {
      const request = loadHttps().request(new URL(path, url), {
        method,
        agent,
        signal,
        headers: {
          authorization: `Bearer ${token.trim()}`,
          "content-type": contentType,
          "content-length": Buffer.byteLength(body),
          accept: "application/json",
          "user-agent": "kube-vhostuser",
        },
      });
      request.on("error", reject);
      request.on("response", (response) => {
        const chunks: Buffer[] = [];
        let bytes = 0;
        response.on("data", (chunk: Buffer) => {
          bytes += chunk.length;
          if (bytes <= MAX_BODY_BYTES) chunks.push(chunk);
          else response.destroy(new Error("the answer is too long"));
        });
        response.on("error", reject);
        // `end` comes for a whole answer only.
        response.on("end", () =>
          resolve({
            status: response.statusCode ?? 0,
            body: Buffer.concat(chunks).toString("utf8"),
            retryAfterMs: retryAfter(response.headers["retry-after"]),
          }),
        );
      });
      request.end(body);
    });
  }

  #agentFor(ca: string): Agent {
    if (this.#agent?.ca !== ca) {
      this.close();
      this.#agent = { ca, agent: new (loadHttps().Agent)({ ca, keepAlive: true, maxSockets: 1 }) };
    }
    return this.#agent?.agent as Agent;
  }
}

/** Loaded by whoever has events switched on, and by nobody else: TLS is some megabytes. */
function loadHttps(): typeof import("node:https") {
  return process.getBuiltinModule("node:https");
}

function eventsPath(namespace: string): string {
  return `/apis/events.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/events`;
}

/** 401 may be a token that has just been replaced, 5xx and 429 an API server that is busy or starting. */
function judge({ status, body, retryAfterMs }: Answer): ApiOutcome {
  if (status >= 200 && status < 300) return { kind: "done" };
  const reason = `the API server answered ${status}${messageOf(body)}`;
  if (status === 404) return { kind: "missing" };
  if (status === 409) return { kind: "exists" };
  if (status === 401 || status === 408 || status === 429 || status >= 500)
    return { kind: "later", reason, ...(retryAfterMs === undefined ? {} : { afterMs: retryAfterMs }) };
  return { kind: "refused", reason };
}

/** The message of a `Status` object, or of whatever stands in between. */
function messageOf(body: string): string {
  let message: unknown;
  try {
    ({ message } = JSON.parse(body) as { message?: unknown });
  } catch {
    message = body;
  }
  return typeof message === "string" && message !== "" ? `: ${message.slice(0, MAX_REASON)}` : "";
}

function retryAfter(header: string | undefined): number | undefined {
  const seconds = Number(header);
  return header === undefined || !(seconds >= 0) ? undefined : Math.min(seconds * 1000, MAX_RETRY_AFTER_MS);
}
