import type { Dataplane } from "../dataplane/dataplane.ts";
import type { Logger } from "../logging/logger.ts";
import type { Clock } from "../sync/clock.ts";
import { type Check, runChecks } from "./checks.ts";
import { collectMachine } from "./collect-machine.ts";
import { collectNode } from "./collect-node.ts";
import { collectProcess } from "./collect-process.ts";
import { Heartbeats } from "./heartbeats.ts";
import { type HttpServer, type Page, serveHttp, text } from "./http-server.ts";
import { InterfacesPage } from "./interfaces-page.ts";
import { type Count, Metrics } from "./metrics.ts";
import type { NodeView } from "./node-view.ts";
import {
  type CniOutcome,
  collectZeros,
  observeAllocations,
  observeCni,
  observePodResources,
} from "./observed-calls.ts";
import { ObservedDataplanes } from "./observed-dataplane.ts";
import { readinessChecks } from "./readiness.ts";
import { ReconcileWatch } from "./reconcile-watch.ts";

/** What the daemon is observed with. */
export interface ObserverOptions {
  /** Where metrics and probes are served. */
  readonly listen: { readonly address: string; readonly port: number };
  /** Whether `/metrics/interfaces` is served, which tells names of pods; default no. */
  readonly interfaces?: boolean;
  readonly view: NodeView;
  /** Release that runs. */
  readonly version: string;
  /** Milliseconds that the reconciler may give no sign of life: its pause and the work on one port, with some to spare. */
  readonly maxReconcilerSilenceMs: () => number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Where the machine tells of itself; default its own /sys. */
  readonly machine?: { readonly sys: string };
}

/** What an {@link Observer} has counted. */
export interface ObservedCounts {
  /** Label `kind`. */
  readonly repairs: readonly Count[];
  /** Labels `source` and `code`. */
  readonly errors: readonly Count[];
  /** When the reconciler went through last, in milliseconds since the epoch. */
  readonly lastPassAt: number | undefined;
}

/** Below the second that kubelet gives a probe unless told otherwise. */
const CHECK_MS = 800;

/** Metrics, liveness and readiness of one daemon; its parts are wrapped, and know nothing of it. */
export class Observer {
  readonly #metrics: Metrics;
  readonly #dataplanes: ObservedDataplanes;
  readonly #server: HttpServer;
  /** What the reconciler reports to. */
  readonly reconcile: ReconcileWatch;

  private constructor(
    metrics: Metrics,
    dataplanes: ObservedDataplanes,
    reconcile: ReconcileWatch,
    server: HttpServer,
  ) {
    this.#metrics = metrics;
    this.#dataplanes = dataplanes;
    this.reconcile = reconcile;
    this.#server = server;
  }

  /** Serves /metrics, /livez and /readyz, and /metrics/interfaces where it is wanted. @throws Failure `invalid-config` when the address cannot be used */
  static async start(options: ObserverOptions): Promise<Observer> {
    const { view, clock, logger } = options;
    const metrics: Metrics = new Metrics([
      collectZeros,
      (to) => collectNode(view, { downFor: dataplanes.downFor(), unsettled: reconcile.unsettledPorts }, to),
      (to) => dataplanes.collect(to),
      (to) => collectMachine({ root: view.root, ...options.machine }, to),
      (to) => collectProcess(options.version, to),
    ]);
    const dataplanes = new ObservedDataplanes(metrics);
    const heartbeats = new Heartbeats();
    const onAlive = heartbeats.expect("reconciler", options.maxReconcilerSilenceMs);
    const reconcile: ReconcileWatch = new ReconcileWatch({ metrics, clock, onAlive });
    const pages = new Map<string, () => Promise<Page>>([
      [
        "/metrics",
        async () => ({ status: 200, contentType: metrics.contentType, body: await metrics.text() }),
      ],
      ...interfacesPage(options, dataplanes, metrics),
      ["/livez", () => verdict(heartbeats.checks())],
      ["/readyz", () => verdict(readinessChecks(view))],
    ]);
    const server = await serveHttp({ ...options.listen, pages, logger });
    return new Observer(metrics, dataplanes, reconcile, server);
  }

  /** Where the pages are, for example `http://127.0.0.1:9417`. */
  get url(): string {
    return this.#server.url;
  }

  /** Wraps what answers the container runtime. */
  cni<Request extends { readonly env: Readonly<Record<string, string>> }, Answer extends CniOutcome>(
    answer: (request: Request, signal: AbortSignal) => Promise<Answer>,
  ): (request: Request, signal: AbortSignal) => Promise<Answer> {
    return observeCni(this.#metrics, answer);
  }

  /** Wraps what answers Allocate for a container of one pool. */
  allocations<Call extends readonly unknown[], Answer>(
    pool: string,
    allocate: (...call: Call) => Promise<Answer>,
  ): (...call: Call) => Promise<Answer> {
    return observeAllocations(this.#metrics, pool, allocate);
  }

  /** Wraps what reads PodResources. */
  podResources<Pods>(
    listPods: (signal: AbortSignal) => Promise<Pods>,
  ): (signal: AbortSignal) => Promise<Pods> {
    return observePodResources(this.#metrics, listPods);
  }

  /** Wraps a switch; once for each, since pools of one switch share it. */
  dataplane(dataplane: Dataplane): Dataplane {
    return this.#dataplanes.observe(dataplane);
  }

  /** A connection to a switch of this kind was made. */
  switchConnected(kind: string): void {
    this.#metrics.count("vhostuser_switch_connections_total", { switch: kind });
  }

  /** A guest came up and was announced, or could not be. */
  announced(outcome: "ok" | "failed"): void {
    this.#metrics.count("vhostuser_announcements_total", { outcome });
  }

  /** For how many milliseconds each port's guest has not run its queues, by port; undefined where nobody can tell. */
  downFor(): ReadonlyMap<string, number> | undefined {
    return this.#dataplanes.downFor();
  }

  /** What was counted since the daemon started, for people who look. */
  async counts(): Promise<ObservedCounts> {
    const [repairs, errors] = await Promise.all([
      this.#metrics.counts("vhostuser_reconcile_repairs_total"),
      this.#metrics.counts("vhostuser_errors_total"),
    ]);
    return { repairs, errors, lastPassAt: this.reconcile.lastOkAt };
  }

  close(): Promise<void> {
    return this.#server.close();
  }
}

function interfacesPage(
  { interfaces = false, view }: ObserverOptions,
  dataplanes: ObservedDataplanes,
  { contentType }: Metrics,
): readonly (readonly [path: string, page: () => Promise<Page>])[] {
  if (!interfaces) return [];
  const page = new InterfacesPage({
    ports: view.records.ports,
    inspect: (signal) => dataplanes.inspect(signal),
  });
  return [["/metrics/interfaces", async () => ({ status: 200, contentType, body: await page.text() })]];
}

async function verdict(checks: readonly Check[]): Promise<Page> {
  const { ok, text: lines } = await runChecks(checks, AbortSignal.timeout(CHECK_MS));
  return text(ok ? 200 : 503, lines);
}
