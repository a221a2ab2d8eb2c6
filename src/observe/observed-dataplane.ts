import type { Dataplane } from "../dataplane/dataplane.ts";
import type { PortState } from "../dataplane/port.ts";
import type { Metrics } from "./metrics.ts";
import { countError, outcomeOf, timed } from "./observed-calls.ts";

type Call =
  | "probe"
  | "ensure-port"
  | "remove-port"
  | "check-port"
  | "numa-node"
  | "list-ports"
  | "inspect-ports"
  | "version"
  | "remove-strays"
  | "ports-settled"
  | "announce";

/** Times every call of the switches, and remembers how many ports they listed last. */
export class ObservedDataplanes {
  readonly #metrics: Metrics;
  /** A switch that did not answer last is not in it: old numbers would be taken for present ones. */
  readonly #listed = new Map<Dataplane, readonly PortState[]>();

  constructor(metrics: Metrics) {
    this.#metrics = metrics;
  }

  /** The same switch, with its calls timed. */
  observe(dataplane: Dataplane): Dataplane {
    return {
      probe: (bridge, signal) => this.#probe(dataplane, bridge, signal),
      ensurePort: (request, signal) => this.#call("ensure-port", () => dataplane.ensurePort(request, signal)),
      removePort: (name, signal) => this.#call("remove-port", () => dataplane.removePort(name, signal)),
      checkPort: (request, signal) => this.#call("check-port", () => dataplane.checkPort(request, signal)),
      numaNode: (bridge, signal) => this.#call("numa-node", () => dataplane.numaNode(bridge, signal)),
      listPorts: (signal) => this.#listPorts(dataplane, signal),
      inspectPorts: (signal) => this.#look("inspect-ports", () => dataplane.inspectPorts(signal)),
      version: (signal) => this.#look("version", () => dataplane.version(signal)),
      removeStrays: (signal) => this.#call("remove-strays", () => dataplane.removeStrays(signal)),
      portsSettled: (signal) => this.#call("ports-settled", () => dataplane.portsSettled(signal)),
      watchLinks: (onLink, signal) => dataplane.watchLinks(onLink, signal),
      announce: (port, frames, signal) =>
        this.#call("announce", () => dataplane.announce(port, frames, signal)),
      expectMove: (bridge) => dataplane.expectMove(bridge),
      close: () => {
        this.#listed.delete(dataplane);
        return dataplane.close();
      },
    };
  }

  /** Ports by bridge and state as they were listed last. */
  collect(metrics: Metrics): void {
    const bridges = Map.groupBy([...this.#listed.values()].flat(), ({ bridge }) => bridge);
    metrics.replace(
      "vhostuser_switch_ports",
      [...bridges].flatMap(([bridge, ports]) =>
        (["connected", "waiting", "failed"] as const).map((state) => {
          return [{ bridge, state }, ports.filter((port) => stateOf(port) === state).length] as const;
        }),
      ),
    );
  }

  #call<Value>(call: Call, run: () => Promise<Value>): Promise<Value> {
    return timed(
      run,
      () => "ok",
      (code, seconds) => {
        this.#observe(call, outcomeOf(code), seconds);
        if (code !== "ok") countError(this.#metrics, "dataplane", code);
      },
    );
  }

  /**
   * For who looks at the node's status: a look that fails is told to them, and counts nowhere. Else an operator who
   * watches a switch that is away would raise what alerts are made of.
   */
  #look<Value>(call: Call, run: () => Promise<Value>): Promise<Value> {
    return timed(
      run,
      () => "ok",
      (code, seconds) => {
        if (code === "ok") this.#observe(call, "ok", seconds);
      },
    );
  }

  #observe(call: Call, outcome: string, seconds: number): void {
    this.#metrics.observe("vhostuser_dataplane_call_duration_seconds", { call, outcome }, seconds);
  }

  /** A probe does not fail; that it found the switch unfit is an outcome of its own. */
  #probe(dataplane: Dataplane, bridge: string, signal: AbortSignal): ReturnType<Dataplane["probe"]> {
    return timed(
      () => dataplane.probe(bridge, signal),
      () => "ok",
      (code, seconds, readiness) => {
        const outcome = readiness?.ready === false ? "unfit" : outcomeOf(code);
        this.#observe("probe", outcome, seconds);
      },
    );
  }

  async #listPorts(dataplane: Dataplane, signal: AbortSignal): Promise<readonly PortState[]> {
    try {
      const ports = await this.#call("list-ports", () => dataplane.listPorts(signal));
      this.#listed.set(dataplane, ports);
      return ports;
    } catch (error) {
      this.#listed.delete(dataplane);
      throw error;
    }
  }
}

function stateOf(port: PortState): "connected" | "waiting" | "failed" {
  if (port.error !== undefined) return "failed";
  return port.connected ? "connected" : "waiting";
}
