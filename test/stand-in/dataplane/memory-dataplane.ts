import type {
  Dataplane,
  DataplaneCapabilities,
  LinkChange,
  Readiness,
} from "../../../src/dataplane/dataplane.ts";
import type { PortInspection, PortRequest, PortState } from "../../../src/dataplane/port.ts";
import type { Uplink } from "../../../src/dataplane/uplink.ts";
import { Failure } from "../../../src/failure/failure.ts";
import { orAborted } from "../../../src/sync/deadlines.ts";

/**
 * A switch in memory for tests of what uses the dataplane interface. Like Open vSwitch it takes one port
 * per name and per socket, and none on a bridge that it does not have.
 */
export class MemoryDataplane implements Dataplane {
  /** Those of Open vSwitch, unless a test sets others. */
  capabilities: DataplaneCapabilities = { forgetsPorts: false, servesInPlace: false, answersDhcp: true };
  readonly bridges = new Set(["br0"]);
  readonly ports = new Map<string, PortState>();
  /** Names of ports that another program made. */
  readonly foreign = new Set<string>();
  /** Set to play a switch that cannot be reached. */
  dead = false;
  /** Set to play a switch that hangs until this resolves. */
  hang: Promise<void> | undefined;
  /** Set to play a switch that takes a port and then reports an error for it. */
  portError: string | undefined;
  /** Set to play a switch that can say so. */
  settledPorts?: NonNullable<Dataplane["settledPorts"]>;
  /** The hardware behind each bridge; none for a bridge that is not in it. */
  readonly uplinks = new Map<string, Uplink>();
  /** What {@link removeStrays} finds. */
  strays = 0;
  closed = false;
  /** Frames that {@link announce} was given, by port. */
  readonly announced = new Map<string, Uint8Array[]>();
  /** Bridges that {@link refreshMacTable} was called for. */
  readonly refreshedBridges: string[] = [];

  readonly #onLink = new Set<(change: LinkChange) => void>();
  readonly #closing = new AbortController();

  #called = Promise.withResolvers<void>();

  /** Resolves when the switch is asked for something the next time. */
  nextCall(): Promise<void> {
    return this.#called.promise;
  }

  async probe(bridge: string): Promise<Readiness> {
    if (this.dead) return { ready: false, reason: "the switch does not answer" };
    return this.bridges.has(bridge) ? { ready: true } : { ready: false, reason: `no bridge ${bridge}` };
  }

  async ensurePort(request: PortRequest, signal: AbortSignal): Promise<PortState> {
    await this.#reach(signal);
    if (!this.bridges.has(request.bridge)) throw failure("bridge-missing", `no bridge ${request.bridge}`);
    if (this.foreign.has(request.name)) throw failure("port-conflict", `port ${request.name} is not ours`);
    const twin = [...this.ports.values()].find(
      ({ name, socketPath }) => name !== request.name && socketPath === request.socketPath,
    );
    if (twin !== undefined) throw failure("port-failed", `port ${twin.name} has the socket already`);
    if (this.portError !== undefined) throw failure("port-failed", this.portError);
    const { name, bridge, socketPath, mtu, owner } = request;
    const before = this.ports.get(name);
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
    const changes = before === undefined ? [`port ${name} does not exist in the switch`] : [];
    return changes.length === 0 ? state : { ...state, changes };
  }

  async removePort(name: string, signal: AbortSignal): Promise<boolean> {
    await this.#reach(signal);
    return this.ports.delete(name);
  }

  async checkPort(request: PortRequest, signal: AbortSignal): Promise<readonly string[]> {
    await this.#reach(signal);
    const port = this.ports.get(request.name);
    if (port === undefined) return [`port ${request.name} is gone`];
    return port.bridge === request.bridge ? [] : [`port ${request.name} is on bridge ${port.bridge}`];
  }

  async uplink(bridge: string, signal: AbortSignal): Promise<Uplink> {
    await this.#reach(signal);
    return this.uplinks.get(bridge) ?? {};
  }

  async listPorts(signal: AbortSignal): Promise<readonly PortState[]> {
    await this.#reach(signal);
    return [...this.ports.values()];
  }

  /** What {@link inspectPorts} returns beyond the state, by port. */
  readonly inspected = new Map<string, Omit<PortInspection, keyof PortState>>();

  async inspectPorts(signal: AbortSignal): Promise<readonly PortInspection[]> {
    const ports = await this.listPorts(signal);
    return ports.map((port) => ({ ...port, ...this.inspected.get(port.name) }));
  }

  async version(signal: AbortSignal): Promise<string> {
    await this.#reach(signal);
    return "a switch in memory";
  }

  async enableForwarding(signal: AbortSignal): Promise<void> {
    await this.#reach(signal);
  }

  async removeStrays(signal: AbortSignal): Promise<number> {
    await this.#reach(signal);
    const removed = this.strays;
    this.strays = 0;
    return removed;
  }

  /** Plays a guest that comes to a port or leaves it. */
  setLink(name: string, link: LinkChange["link"]): void {
    const state = this.ports.get(name);
    if (state !== undefined) this.ports.set(name, { ...state, link, connected: link === "up" });
    for (const notify of this.#onLink) notify({ port: name, link });
  }

  async watchLinks(onLink: (change: LinkChange) => void, signal: AbortSignal): Promise<void> {
    this.#onLink.add(onLink);
    const pending = new Promise<never>(() => undefined);
    await orAborted(pending, AbortSignal.any([signal, this.#closing.signal])).catch(() => undefined);
    this.#onLink.delete(onLink);
  }

  async announce(
    { name }: { readonly name: string },
    frames: readonly Uint8Array[],
    signal: AbortSignal,
  ): Promise<boolean> {
    await this.#reach(signal);
    if (this.ports.get(name)?.link !== "up") return false;
    this.announced.set(name, [...(this.announced.get(name) ?? []), ...frames]);
    return true;
  }

  refreshMacTable(bridge: string): void {
    this.refreshedBridges.push(bridge);
  }

  async close(): Promise<void> {
    this.closed = true;
    this.#closing.abort();
  }

  async #reach(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.#called.resolve();
    this.#called = Promise.withResolvers();
    const late = () => failure("dataplane-timeout", "the switch did not apply it in time");
    if (this.hang !== undefined) await orAborted(this.hang, signal, late);
    if (this.dead) throw failure("dataplane-unavailable", "the switch does not answer");
  }
}

function failure(
  code: "bridge-missing" | "port-conflict" | "port-failed" | "dataplane-unavailable" | "dataplane-timeout",
  what: string,
) {
  return new Failure({ code, what });
}
