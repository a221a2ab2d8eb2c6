import type { Dataplane, Readiness } from "../../../src/dataplane/dataplane.ts";
import type { PortRequest, PortState } from "../../../src/dataplane/port.ts";
import { Failure } from "../../../src/failure/failure.ts";

/**
 * A switch in memory for tests of what stands on the dataplane interface. Like Open vSwitch it takes one port
 * per name and per socket, and none on a bridge that it does not have.
 */
export class MemoryDataplane implements Dataplane {
  readonly bridges = new Set(["br0"]);
  readonly ports = new Map<string, PortState>();
  /** Names of ports that somebody else made. */
  readonly foreign = new Set<string>();
  /** Set to play a switch that cannot be reached. */
  dead = false;
  /** Set to play a switch that takes a port and then reports an error for it. */
  portError: string | undefined;
  closed = false;

  async probe(bridge: string): Promise<Readiness> {
    if (this.dead) return { ready: false, reason: "the switch does not answer" };
    return this.bridges.has(bridge) ? { ready: true } : { ready: false, reason: `no bridge ${bridge}` };
  }

  async ensurePort(request: PortRequest, signal: AbortSignal): Promise<PortState> {
    this.#reach(signal);
    if (!this.bridges.has(request.bridge)) throw failure("bridge-missing", `no bridge ${request.bridge}`);
    if (this.foreign.has(request.name)) throw failure("port-conflict", `port ${request.name} is not ours`);
    const twin = [...this.ports.values()].find(
      ({ name, socketPath }) => name !== request.name && socketPath === request.socketPath,
    );
    if (twin !== undefined) throw failure("port-failed", `port ${twin.name} has the socket already`);
    if (this.portError !== undefined) throw failure("port-failed", this.portError);
    const { name, bridge, socketPath, mtu, owner } = request;
    const state: PortState = {
      name,
      bridge,
      socketPath,
      ...(mtu === undefined ? {} : { mtu }),
      owner,
      link: "down",
      connected: false,
    };
    this.ports.set(name, state);
    return state;
  }

  async removePort(name: string, signal: AbortSignal): Promise<boolean> {
    this.#reach(signal);
    return this.ports.delete(name);
  }

  async checkPort(request: PortRequest, signal: AbortSignal): Promise<readonly string[]> {
    this.#reach(signal);
    const port = this.ports.get(request.name);
    if (port === undefined) return [`port ${request.name} is gone`];
    return port.bridge === request.bridge ? [] : [`port ${request.name} is on bridge ${port.bridge}`];
  }

  async listPorts(signal: AbortSignal): Promise<readonly PortState[]> {
    this.#reach(signal);
    return [...this.ports.values()];
  }

  async close(): Promise<void> {
    this.closed = true;
  }

  #reach(signal: AbortSignal): void {
    signal.throwIfAborted();
    if (this.dead) throw failure("dataplane-unavailable", "the switch does not answer");
  }
}

function failure(
  code: "bridge-missing" | "port-conflict" | "port-failed" | "dataplane-unavailable",
  what: string,
) {
  return new Failure({ code, what });
}
