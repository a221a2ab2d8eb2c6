import type { IncomingMessage } from "node:http";
import { isLoopback } from "../../addresses/host-address.ts";
import type { Logger } from "../../logging/logger.ts";
import { type HttpServer, type Page, serveHttp, text } from "../../observe/http-server.ts";
import { SharedRead } from "../../sync/shared-read.ts";
import { PAGE_FILE, readPageFile } from "../page-file.ts";
import type { AddressesReading } from "../read-addresses.ts";
import type { NodeStatus, TraceAnswer } from "../shape.ts";
import { describeChains } from "./describe-chains.ts";
import { describeNode, type PodName } from "./describe-node.ts";

/** What the page shows, and where it is served. */
export interface StatusPageOptions {
  /** A loopback address. */
  readonly address: string;
  /** 0 for any free one. */
  readonly port: number;
  /** Reads the whole node. */
  readonly readNode: (signal: AbortSignal) => Promise<NodeStatus>;
  /** Traces one pod. */
  readonly readTrace: (pod: PodName, signal: AbortSignal) => Promise<TraceAnswer>;
  /** Asks the IPAM agent; default is a node without one. */
  readonly readAddresses?: (signal: AbortSignal) => Promise<AddressesReading>;
  readonly logger: Logger;
  /** The page as it was built; default {@link PAGE_FILE}. */
  readonly file?: string;
  /** Monotonic clock in milliseconds. */
  readonly now?: () => number;
}

/** Time for the switches and kubelet to answer; one that does not is reported as such. */
const READ_MS = 3_000;
/** Requests within this time share one read of the node. */
const MAX_AGE_MS = 1_000;
/** Pods that are traced within that time; more would cost the switch too much. */
const MAX_CHAINS = 16;

/** In addition to what every server of ours sends (nosniff, no-store). */
const HEADERS = {
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
  "cross-origin-opener-policy": "same-origin",
  // For what is not the page itself: nothing in it may ever run.
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
};

/**
 * Serves the status page of the node, read-only. The node is read only on request, and at most once a second.
 * @throws Failure `invalid-config` when the address cannot be listened on, `part-missing` without a page
 */
export async function serveStatusPage(options: StatusPageOptions): Promise<HttpServer> {
  const { address, port, logger, now = () => performance.now() } = options;
  const { html, policy } = await readPageFile(options.file ?? PAGE_FILE);
  const recent = <Value>(read: () => Promise<Value>) =>
    new SharedRead({ read, maxAgeMs: MAX_AGE_MS, clock: { monotonic: now } });
  const node = recent(() => readPage(options));
  const chains = new Map<string, SharedRead<Page>>();
  const chainsOf = async (query: URLSearchParams): Promise<Page> => {
    const id = query.get("pod") ?? "";
    const pod = (await node.get()).pods.get(id);
    if (pod === undefined) return text(404, "this pod has no interface on this node\n");
    for (const [other, chain] of chains) if (!chain.isFresh) chains.delete(other);
    const known = chains.get(id);
    if (known !== undefined) return known.get();
    if (chains.size >= MAX_CHAINS) return text(503, "too many pods are traced at the same time; try again\n");
    const chain = recent(() => readChains(options, pod));
    chains.set(id, chain);
    return chain.get();
  };
  const headers = { "content-security-policy": policy };
  const routes = new Map<string, (query: URLSearchParams) => Promise<Page>>([
    ["/", async () => ({ ...page("text/html; charset=utf-8", html), headers })],
    ["/api/node", async () => (await node.get()).page],
    ["/api/chain", chainsOf],
  ]);
  return serveHttp({
    ...{ address, port, logger },
    named: { what: "the status page", key: "statusPage" },
    pages: routes,
    refuse: refuseOtherSites,
    headers: HEADERS,
  });
}

async function readPage({ readNode, readAddresses }: StatusPageOptions) {
  const signal = AbortSignal.timeout(READ_MS);
  const [status, addresses] = await Promise.all([readNode(signal), readAddresses?.(signal)]);
  const { view, pods } = await describeNode(status, addresses);
  return { page: page("application/json", JSON.stringify(view)), pods };
}

async function readChains({ readTrace }: StatusPageOptions, pod: PodName): Promise<Page> {
  const { interfaces } = await readTrace(pod, AbortSignal.timeout(READ_MS));
  const chains = describeChains(pod, interfaces);
  return page("application/json", JSON.stringify(chains));
}

function page(contentType: string, body: string): Page {
  return { status: 200, contentType, body };
}

/**
 * Refuses what the page itself would not send. Any name may be made to resolve to a loopback address (DNS rebinding), so
 * the Host must be a loopback address or `localhost`; its port may be any, since kubectl port-forward has one of its own.
 * What another site's page asks for is refused by the headers with which browsers say so (Fetch Metadata, W3C), but for
 * a plain link to the page.
 */
function refuseOtherSites({ headers, url }: Pick<IncomingMessage, "headers" | "url">): Page | undefined {
  if (!isOwnHost(headers.host)) {
    return text(421, "the Host must be localhost or a loopback address; see docs/status-page.md\n");
  }
  const site = headers["sec-fetch-site"];
  if (site === undefined || site === "same-origin" || site === "none") return undefined;
  const isLink =
    url === "/" && headers["sec-fetch-mode"] === "navigate" && headers["sec-fetch-dest"] === "document";
  return isLink ? undefined : text(403, "only the page itself may ask\n");
}

function isOwnHost(host: string | undefined): boolean {
  const [, bracketed, plain = ""] =
    /^(?:\[([\da-fA-F:.]+)\]|([^:[\]]+))(?::\d{1,5})?$/.exec(host ?? "") ?? [];
  const name = bracketed ?? plain;
  return name.toLowerCase() === "localhost" || isLoopback(name);
}
