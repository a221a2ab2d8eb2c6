import * as z from "zod";
import type { Logger } from "../logging/logger.ts";
import { type HttpServer, type Page, serveHttp, text } from "../observe/http-server.ts";
import { mapInChunks } from "../sync/map-in-chunks.ts";
import { SharedRead } from "../sync/shared-read.ts";
import { readNode } from "./read-node.ts";
import { readTrace } from "./read-trace.ts";
import type { StatusSource } from "./status-source.ts";

/** What is served, and where. */
export interface StatusServerOptions {
  readonly socketPath: string;
  readonly source: StatusSource;
  readonly logger: Logger;
}

/** Time for the switches and kubelet to answer; one that does not is reported as such. */
const READ_MS = 3_000;

/** Kubernetes' names of namespaces and pods. */
const name = z.string().regex(/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/);
const traceQuery = z.object({ pod: name, namespace: name.optional() });

/**
 * Serves the node's status as JSON over HTTP on a unix socket that only root can connect to. It changes nothing.
 * Requests for the whole node at the same time share one read; each request for a pod reads it. Other work of the daemon
 * runs in between.
 * @throws Failure `invalid-config` when the socket cannot be made
 */
export function serveStatus({ socketPath, source, logger }: StatusServerOptions): Promise<HttpServer> {
  const node = new SharedRead({
    read: async () => json(await readNode(source, AbortSignal.timeout(READ_MS))),
    maxAgeMs: 0,
  });
  return serveHttp({
    socketPath,
    socketOption: "statusSocket",
    logger,
    pages: new Map<string, (query: URLSearchParams) => Promise<Page>>([
      ["/v1/node", () => node.get()],
      [
        "/v1/trace",
        async (query) => {
          const asked = traceQuery.safeParse(Object.fromEntries(query));
          if (!asked.success)
            return text(400, "pod, and optionally namespace, must be names of Kubernetes\n");
          const { pod, namespace } = asked.data;
          const wanted = { pod, ...(namespace === undefined ? {} : { namespace }) };
          return json(await readTrace(source, wanted, AbortSignal.timeout(READ_MS)));
        },
      ],
    ]),
  });
}

async function json(value: Readonly<Record<string, unknown>>): Promise<Page> {
  return { status: 200, contentType: "application/json", body: `${await stringifyInChunks(value)}\n` };
}

/** Elements of a list before other work may run. */
const CHUNK = 200;

/** JSON of an object whose lists may be long, made in pieces between which other work may run. */
export async function stringifyInChunks(value: Readonly<Record<string, unknown>>): Promise<string> {
  const members: string[] = [];
  for (const [key, member] of Object.entries(value)) {
    if (member === undefined) continue;
    const text = Array.isArray(member)
      ? `[${(await mapInChunks(member, CHUNK, (one) => JSON.stringify(one))).join(",")}]`
      : JSON.stringify(member);
    members.push(`${JSON.stringify(key)}:${text}`);
  }
  return `{${members.join(",")}}`;
}
