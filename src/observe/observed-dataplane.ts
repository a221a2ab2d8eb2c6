import type { Dataplane, Readiness } from "../dataplane/dataplane.ts";
import type { PortInspection, PortState } from "../dataplane/port.ts";
import type { Clock } from "../sync/clock.ts";
import { orAborted } from "../sync/deadlines.ts";
import type { Metrics } from "./metrics.ts";
import { type CallCode, countError, outcomeOf, timed } from "./observed-calls.ts";

/** Times every call to the switches, and remembers the ports that they listed last. */
export class ObservedDataplanes {
  readonly #metrics: Metrics;
  /** Without a switch that did not answer last: its numbers would be stale. */
  readonly #listed = new Map<Dataplane, readonly PortState[]>();
  /** Those that are not closed. */
  readonly #open = new Set<Dataplane>();
  /** When each port that is down was first seen so, in milliseconds of `clock.monotonic()`. */
  readonly #downSince = new Map<string, number>();
  readonly #clock: Clock;

  constructor(metrics: Metrics, clock: Clock) {
    this.#metrics = metrics;
    this.#clock = clock;
  }

  /** The same switch, with its calls timed. */
  observe(dataplane: Dataplane): Dataplane {
    this.#open.add(dataplane);
    const enableForwarding = dataplane.enableForwarding?.bind(dataplane);
    const settledPorts = dataplane.settledPorts?.bind(dataplane);
    const refreshMacTable = dataplane.refreshMacTable?.bind(dataplane);
    return {
      capabilities: dataplane.capabilities,
      probe: (bridge, signal) => {
        const report = (code: CallCode, seconds: number, readiness?: Readiness) =>
          this.#observe("probe", readiness?.ready === false ? "not-ready" : outcomeOf(code), seconds);
        return timed(() => dataplane.probe(bridge, signal), report);
      },
      ensurePort: (request, signal) => this.#call("ensure-port", () => dataplane.ensurePort(request, signal)),
      removePort: (name, signal) => this.#call("remove-port", () => dataplane.removePort(name, signal)),
      checkPort: (request, signal) => this.#call("check-port", () => dataplane.checkPort(request, signal)),
      ...(settledPorts && {
        settledPorts: (requests, signal) => this.#call("settled-ports", () => settledPorts(requests, signal)),
      }),
      uplink: (bridge, signal) => this.#call("uplink", () => dataplane.uplink(bridge, signal)),
      listPorts: (signal) => this.#listPorts(dataplane, signal),
      inspectPorts: (signal) => this.#inspect("inspect-ports", () => dataplane.inspectPorts(signal)),
      version: (signal) => this.#inspect("version", () => dataplane.version(signal)),
      removeStrays: (signal) => this.#call("remove-strays", () => dataplane.removeStrays(signal)),
      ...(enableForwarding && {
        enableForwarding: (signal) => this.#call("enable-forwarding", () => enableForwarding(signal)),
      }),
      watchLinks: (onLink, signal) => dataplane.watchLinks(onLink, signal),
      announce: (port, frames, signal) =>
        this.#call("announce", () => dataplane.announce(port, frames, signal)),
      ...(refreshMacTable && { refreshMacTable }),
      close: () => {
        this.#open.delete(dataplane);
        this.#listed.delete(dataplane);
        return dataplane.close();
      },
    };
  }

  /** Ports by bridge and state as they were listed last. */
  collect(): void {
    const bridges = Map.groupBy([...this.#listed.values()].flat(), ({ bridge }) => bridge);
    const states = [...bridges].flatMap(([bridge, ports]) =>
      (["connected", "waiting", "failed"] as const).map((state) => ({ bridge, state, ports })),
    );
    this.#metrics.replace("vhostuser_switch_ports", states, ({ bridge, state, ports }) => [
      { bridge, state },
      ports.filter((port) => stateOf(port) === state).length,
    ]);
  }

  /**
   * For how many milliseconds each port is down, by name, as far as listings show; undefined while no switch answers.
   * Ports of a switch that does not answer are left out.
   */
  downFor(): ReadonlyMap<string, number> | undefined {
    if (this.#listed.size === 0) return undefined;
    const listed = [...this.#listed.values()].flat();
    const now = this.#clock.monotonic();
    return new Map(
      listed.flatMap(({ name }) => {
        const since = this.#downSince.get(name);
        return since === undefined ? [] : [[name, now - since] as const];
      }),
    );
  }

  /** The ports of all switches that answer, with their counters. */
  async inspect(signal: AbortSignal): Promise<readonly PortInspection[]> {
    const readings = await Promise.allSettled(
      [...this.#open].map((dataplane) =>
        this.#inspect("inspect-ports", () => orAborted(dataplane.inspectPorts(signal), signal)),
      ),
    );
    return readings.flatMap((reading) => (reading.status === "fulfilled" ? reading.value : []));
  }

  #call<Value>(call: string, run: () => Promise<Value>): Promise<Value> {
    return timed(run, (code, seconds) => {
      this.#observe(call, outcomeOf(code), seconds);
      if (code !== "ok") countError(this.#metrics, "dataplane", code);
    });
  }

  /** For readers of the node's status: their failures would raise alerts whenever a switch is away. */
  #inspect<Value>(call: string, run: () => Promise<Value>): Promise<Value> {
    return timed(run, (code, seconds) => {
      if (code === "ok") this.#observe(call, "ok", seconds);
    });
  }

  #observe(call: string, outcome: string, seconds: number): void {
    this.#metrics.observe("vhostuser_dataplane_call_duration_seconds", { call, outcome }, seconds);
  }

  async #listPorts(dataplane: Dataplane, signal: AbortSignal): Promise<readonly PortState[]> {
    try {
      const ports = await this.#call("list-ports", () => dataplane.listPorts(signal));
      // Closed meanwhile, it would be remembered for good.
      if (this.#open.has(dataplane)) this.#remember(dataplane, ports);
      return ports;
    } catch (error) {
      this.#listed.delete(dataplane);
      throw error;
    }
  }

  #remember(dataplane: Dataplane, ports: readonly PortState[]): void {
    this.#listed.set(dataplane, ports);
    const known = new Set([...this.#listed.values()].flat().map(({ name }) => name));
    // While one switch is away, its ports are in no listing; how long they are down is not forgotten.
    if (this.#listed.size === this.#open.size) {
      for (const name of this.#downSince.keys()) if (!known.has(name)) this.#downSince.delete(name);
    }
    const now = this.#clock.monotonic();
    for (const { name, link } of ports) {
      if (link === "up") this.#downSince.delete(name);
      else if (!this.#downSince.has(name)) this.#downSince.set(name, now);
    }
  }
}

function stateOf(port: PortState): "connected" | "waiting" | "failed" {
  if (port.error !== undefined) return "failed";
  return port.connected ? "connected" : "waiting";
}
