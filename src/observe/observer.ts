import type { Logger } from "../logging/logger.ts";
import type { Clock } from "../sync/clock.ts";
import { collectMachine, collectNode, collectProcess } from "./collect.ts";
import { type Page, serveHttp } from "./http-server.ts";
import { interfacesPage } from "./interfaces-page.ts";
import { type Count, Metrics } from "./metrics.ts";
import { collectZeros } from "./observed-calls.ts";
import { ObservedDataplanes } from "./observed-dataplane.ts";
import type { ObservedNode } from "./observed-node.ts";
import { probe, readinessChecks } from "./probes.ts";
import { ReconcileWatch } from "./reconcile-watch.ts";

/** What the daemon is observed with. */
export interface ObserverOptions {
  /** Where metrics and probes are served. */
  readonly listen: { readonly address: string; readonly port: number };
  /** Whether `/metrics/interfaces` is served, which shows names of pods; default no. */
  readonly interfaces?: boolean;
  readonly node: ObservedNode;
  /** Release that runs. */
  readonly version: string;
  /** Milliseconds that the reconciler may make no progress: its pause and the work on one port, with some to spare. */
  readonly maxReconcilerSilenceMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Default /sys. */
  readonly sys?: string;
}

/** Metrics and probes that are being served, and what the daemon's parts report to. */
export interface Observer {
  /** Where the pages are, for example `http://127.0.0.1:9417`. */
  readonly url: string;
  readonly metrics: Metrics;
  readonly dataplanes: ObservedDataplanes;
  readonly reconcile: ReconcileWatch;
  /** What was counted since the daemon started, for the node's status. */
  counts(): Promise<ObservedCounts>;
  close(): Promise<void>;
}

/** What an {@link Observer} has counted. */
export interface ObservedCounts {
  /** Label `kind`. */
  readonly repairs: readonly Count[];
  /** Labels `source` and `code`. */
  readonly errors: readonly Count[];
  /** When a pass of the reconciler last succeeded, in milliseconds since the epoch. */
  readonly lastPassAt: number | undefined;
}

/**
 * Serves /metrics, /livez and /readyz, and /metrics/interfaces where it is wanted.
 * @throws Failure `invalid-config` when the address cannot be used
 */
export async function startObserver(options: ObserverOptions): Promise<Observer> {
  const { listen, interfaces = false, node, version, clock, logger, sys = "/sys" } = options;
  const metrics: Metrics = new Metrics([
    () => collectZeros(metrics),
    () => collectNode(node, { downFor: dataplanes.downFor(), unsettled: reconcile.unsettledPorts }, metrics),
    () => dataplanes.collect(),
    async () => metrics.set("vhostuser_root_usable", {}, (await node.rootProblem()) === undefined ? 1 : 0),
    () => collectMachine(node.root, sys, metrics),
    () => metrics.set("vhostuser_build_info", { version, node_version: process.versions.node }, 1),
    () => collectProcess(metrics),
  ]);
  const dataplanes = new ObservedDataplanes(metrics, clock);
  const reconcile: ReconcileWatch = new ReconcileWatch(metrics, clock);
  const page = async (body: Promise<string>): Promise<Page> => {
    return { status: 200, contentType: metrics.contentType, body: await body };
  };
  const pages = new Map<string, () => Promise<Page>>([
    ["/metrics", () => page(metrics.text())],
    ["/livez", () => probe([reconcile.check(options.maxReconcilerSilenceMs)])],
    ["/readyz", () => probe(readinessChecks(node))],
  ]);
  if (interfaces) {
    const inspect = (signal: AbortSignal) => dataplanes.inspect(signal);
    const render = interfacesPage({ ports: node.records.ports, inspect, clock });
    pages.set("/metrics/interfaces", () => page(render()));
  }
  const server = await serveHttp({ ...listen, pages, logger });
  const counts = async () => ({
    repairs: await metrics.counts("vhostuser_reconcile_repairs_total"),
    errors: await metrics.counts("vhostuser_errors_total"),
    lastPassAt: reconcile.lastOkAt,
  });
  return { url: server.url, metrics, dataplanes, reconcile, counts, close: () => server.close() };
}
