// Metrics and probes of the driver.
import type { Delegate } from "../ipam/ipam.ts";
import type { Logger } from "../logging/logger.ts";
import { collectProcess, EVENT_OUTCOMES } from "../observe/collect.ts";
import { CNI_DRA_METRICS } from "../observe/declared-cni-dra-metrics.ts";
import { METRICS, PROCESS_METRICS } from "../observe/declared-metrics.ts";
import type { EventCounts } from "../observe/events/event-poster.ts";
import { type HttpServer, type Page, serveHttp, text } from "../observe/http-server.ts";
import { MetricSet } from "../observe/metrics.ts";
import { outcomeOf, timed } from "../observe/observed-calls.ts";
import { type Check, probe, unwritable } from "../observe/probes.ts";
import type { NriHandler } from "../protocols/nri/nri-plugin.ts";
import type { InterfaceRecord } from "./interface-record.ts";
import type { FailingDel } from "./pending-dels.ts";

const STATES = ["prepared", "adding", "added", "deleting"] as const;
const VERBS = ["ADD", "CHECK", "DEL"] as const;
const CALLS = ["prepare", "unprepare"] as const;

/** What is observed of a driver. */
export interface ObservedDriver {
  readonly records: readonly InterfaceRecord[];
  readonly failing: readonly FailingDel[];
  readonly isConnected: boolean;
  readonly isRegistered: boolean;
  /** Undefined where none are posted. */
  readonly events: Readonly<EventCounts> | undefined;
}

/** Metrics of a driver, and what its parts report to. */
export class DriverMetrics {
  readonly #set;
  readonly #observed: () => ObservedDriver;

  constructor(observed: () => ObservedDriver) {
    this.#observed = observed;
    const { vhostuser_events_total } = METRICS;
    this.#set = new MetricSet({ ...CNI_DRA_METRICS, vhostuser_events_total, ...PROCESS_METRICS }, [
      () => this.#collect(),
      () => collectProcess(this.#set),
    ]);
    const set = this.#set;
    for (const call of CALLS) set.count("vhostuser_cni_dra_claim_calls_total", { call, code: "ok" }, 0);
    for (const verb of VERBS)
      for (const outcome of ["ok", "failed"])
        set.zero("vhostuser_cni_dra_plugin_call_duration_seconds", { verb, outcome });
  }

  /**
   * Serves /metrics, /livez and /readyz: alive while it answers, ready while kubelet and the runtime have it.
   * @throws Failure `invalid-config` when the address cannot be used
   */
  async serve(
    listen: { readonly address: string; readonly port: number },
    { stateDirectory, logger }: { readonly stateDirectory: string; readonly logger: Logger },
  ): Promise<HttpServer> {
    const set = this.#set;
    const check = (name: string, isOk: () => boolean, problem: string): Check => ({
      name,
      problem: () => (isOk() ? undefined : problem),
    });
    const readiness: readonly Check[] = [
      { name: "records", problem: () => unwritable(stateDirectory) },
      check("runtime", () => this.#observed().isConnected, "NRI is not connected"),
      check("kubelet", () => this.#observed().isRegistered, "not registered"),
    ];
    const page = async (): Promise<Page> => ({
      ...{ status: 200, contentType: set.contentType },
      body: await set.text(),
    });
    const pages = new Map<string, () => Promise<Page>>([
      ["/metrics", page],
      ["/livez", async () => text(200, "ok\n")],
      ["/readyz", () => probe(readiness)],
    ]);
    return serveHttp({ ...listen, named: { what: "metrics and probes", key: "--observe" }, pages, logger });
  }

  /** Counts kubelet's calls. */
  claims<Call extends readonly unknown[], Answer>(
    call: (typeof CALLS)[number],
    serve: (...args: Call) => Promise<Answer>,
  ): (...args: Call) => Promise<Answer> {
    return (...args) =>
      timed(
        () => serve(...args),
        (code) => this.#set.count("vhostuser_cni_dra_claim_calls_total", { call, code }),
      );
  }

  /** Times calls of plugins. */
  plugins(delegate: Delegate): Delegate {
    return async (call) => {
      const began = performance.now();
      const reply = await delegate(call);
      const outcome = reply.exitCode === 0 ? "ok" : "failed";
      const verb = call.env["CNI_COMMAND"] ?? "";
      const seconds = (performance.now() - began) / 1000;
      this.#set.observe("vhostuser_cni_dra_plugin_call_duration_seconds", { verb, outcome }, seconds);
      return reply;
    };
  }

  /** Times what is done for the runtime. */
  hooks(handler: NriHandler): NriHandler {
    const observed =
      <Call extends readonly unknown[]>(hook: string, work: (...args: Call) => Promise<void>) =>
      (...args: Call) =>
        timed(
          () => work(...args),
          (code, seconds) =>
            this.#set.observe(
              "vhostuser_cni_dra_hook_duration_seconds",
              { hook, outcome: outcomeOf(code) },
              seconds,
            ),
        );
    return {
      synchronize: observed("Synchronize", (pods) => handler.synchronize(pods)),
      runPodSandbox: observed("RunPodSandbox", (pod) => handler.runPodSandbox(pod)),
      createContainer: observed("CreateContainer", (pod) => handler.createContainer(pod)),
      stopPodSandbox: observed("StopPodSandbox", (pod) => handler.stopPodSandbox(pod)),
      removePodSandbox: observed("RemovePodSandbox", (pod) => handler.removePodSandbox(pod)),
    };
  }

  #collect(): void {
    const { records, failing, isConnected, isRegistered, events } = this.#observed();
    const states = records.flatMap(({ attachments }) =>
      attachments.length === 0 ? (["prepared"] as const) : attachments.map(({ state }) => state),
    );
    const set = this.#set;
    set.replace("vhostuser_cni_dra_interfaces", STATES, (state) => [
      { state },
      states.filter((one) => one === state).length,
    ]);
    set.set("vhostuser_cni_dra_failing_dels", {}, failing.length);
    set.set("vhostuser_cni_dra_stuck_dels", {}, failing.filter(({ isStuck }) => isStuck).length);
    set.set("vhostuser_cni_dra_runtime_connected", {}, isConnected ? 1 : 0);
    set.set("vhostuser_cni_dra_kubelet_registered", {}, isRegistered ? 1 : 0);
    set.replace("vhostuser_events_total", EVENT_OUTCOMES, (outcome) => [{ outcome }, events?.[outcome] ?? 0]);
  }
}
