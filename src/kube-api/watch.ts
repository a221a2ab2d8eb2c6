import type { Clock } from "../sync/clock.ts";
import { ApiFailure, failureOf } from "./api-failure.ts";
import { isObject, type KubeApi, type KubeObject, type Resource, type Selection } from "./client.ts";

/** What happened to the objects that a watch selects. */
export type ObjectChange =
  /** All there are, at the start and whenever changes may have been missed. */
  | { readonly kind: "all"; readonly objects: readonly KubeObject[] }
  | { readonly kind: "set" | "removed"; readonly object: KubeObject };

/** What a watch works with. */
export interface WatchOptions {
  readonly api: Pick<KubeApi, "list" | "openWatch">;
  readonly resource: Resource;
  readonly selection?: Selection;
  /** What is kept of each object, its name and resourceVersion among it; default all. */
  readonly keep?: (object: KubeObject) => KubeObject;
  readonly clock: Clock;
  /** Called with every failure but an expired resourceVersion; the watch goes on. */
  readonly onFailure?: (failure: ApiFailure) => void;
  /** From 0 up to 1; default Math.random. */
  readonly random?: () => number;
}

/** As client-go: the server ends a watch after five to ten minutes, so that not all nodes reconnect at once. */
const MIN_WATCH_SECONDS = 300;
/** For a server, or a dead connection, that does not end a watch when it should. */
const WATCH_GRACE_MS = 30_000;
const RETRY_MS = 1_000;
const MAX_RETRY_MS = 30_000;
/** etcd holds at most 1.5 MiB of an object; its JSON may be longer. */
const MAX_LINE_BYTES = 8 * 1024 * 1024;

/**
 * Lists a resource and then yields every change of it until the signal fires; rejects with its reason then. A watch that
 * ends goes on from its last resourceVersion, or with a new list where that has expired (410). Failures are retried for
 * ever: rights and networks come back.
 */
export async function* watchResource(
  options: WatchOptions,
  signal: AbortSignal,
): AsyncGenerator<ObjectChange, never> {
  const { api, resource, selection = {}, keep = (one) => one, clock, onFailure } = options;
  const { random = Math.random } = options;
  let resourceVersion: string | undefined;
  for (let failures = 0; ; failures++) {
    let retryAfterMs = 0;
    try {
      if (resourceVersion === undefined) {
        const list = await api.list(resource, selection, signal, keep);
        yield { kind: "all", objects: list.objects };
        resourceVersion = list.resourceVersion;
      }
      for await (const { type, object } of readWatch(options, resourceVersion, signal)) {
        failures = 0;
        resourceVersion = object.metadata.resourceVersion ?? resourceVersion;
        if (type === "BOOKMARK") continue;
        yield { kind: type === "DELETED" ? "removed" : "set", object: keep(object) };
      }
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof ApiFailure)) throw error;
      if (error.problem === "expired") resourceVersion = undefined;
      else onFailure?.(error);
      retryAfterMs = error.retryAfterMs;
    }
    const pauseMs = Math.min(RETRY_MS * 2 ** failures, MAX_RETRY_MS) * (0.5 + random() / 2);
    await clock.sleep(Math.max(pauseMs, retryAfterMs), signal);
  }
}

interface WatchEvent {
  readonly type: string;
  readonly object: KubeObject;
}

async function* readWatch(
  { api, resource, selection, clock, random = Math.random }: WatchOptions,
  resourceVersion: string,
  signal: AbortSignal,
): AsyncGenerator<WatchEvent, void> {
  const where = `watch of ${resource.plural}`;
  const seconds = Math.round(MIN_WATCH_SECONDS * (1 + random()));
  const timeoutSeconds = String(seconds);
  const query = { ...selection, resourceVersion, allowWatchBookmarks: "true", timeoutSeconds };
  const response = await api.openWatch(resource, query, signal);
  const ended = new AbortController();
  const end = () => response.destroy();
  clock.sleep(seconds * 1000 + WATCH_GRACE_MS, ended.signal).then(end, () => undefined);
  try {
    for await (const line of readLines(response, where)) yield parseEvent(line, where);
  } catch (error) {
    if (error instanceof ApiFailure) throw error;
    throw new ApiFailure("unreachable", "the watch was cut", where);
  } finally {
    ended.abort();
    response.destroy();
  }
}

function parseEvent(line: string, where: string): WatchEvent {
  let event: { readonly type?: unknown; readonly object?: { readonly code?: unknown; metadata?: object } };
  try {
    event = JSON.parse(line) ?? {};
  } catch {
    event = {};
  }
  const { type, object } = event;
  if (type === "ERROR") throw failureOf(typeof object?.code === "number" ? object.code : 500, object, where);
  // The object of a bookmark has a resourceVersion and no name.
  const known = type === "BOOKMARK" ? { metadata: { name: "bookmark", ...object?.metadata } } : object;
  if (typeof type === "string" && isObject(known)) return { type, object: known };
  throw new ApiFailure("unreachable", "the watch has a line that is not an event", where);
}

/** Lines of a stream whose chunks may end within a character. */
async function* readLines(chunks: AsyncIterable<Buffer>, where: string): AsyncGenerator<string, void> {
  let parts: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    let from = 0;
    for (let end = chunk.indexOf("\n"); end >= 0; end = chunk.indexOf("\n", from)) {
      yield Buffer.concat([...parts, chunk.subarray(from, end)]).toString("utf8");
      parts = [];
      bytes = 0;
      from = end + 1;
    }
    parts.push(chunk.subarray(from));
    bytes += chunk.length - from;
    if (bytes > MAX_LINE_BYTES) throw new ApiFailure("unreachable", "a line of the watch is too long", where);
  }
}
