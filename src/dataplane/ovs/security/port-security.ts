import {
  describeThrown,
  Failure,
  isSwitchAway,
  systemCode,
  timeoutFailure,
} from "../../../failure/failure.ts";
import type { Logger } from "../../../logging/logger.ts";
import {
  bridgeSocket,
  createOpenflowClient,
  type OpenflowClient,
  type OpenflowConnection,
} from "../../../protocols/openflow/connection.ts";
import { type Clock, systemClock } from "../../../sync/clock.ts";
import { whenAborted, within } from "../../../sync/deadlines.ts";
import { KeyedMutex } from "../../../sync/keyed-mutex.ts";
import { WorkQueue } from "../../../sync/work-queue.ts";
import { DhcpAnswers, type OnGuestRequest } from "../dhcp/answer-packet.ts";
import {
  applyFlows,
  type BridgeSecurity,
  type MarkedPorts,
  planPort,
  removePortFlows,
  removeStrayFlows,
  restoreFlows,
} from "./bridge-flows.ts";
import type { SecuredPort } from "./rules.ts";

const RESTORE_LIMIT_MS = 5000;
/** Pause before flows that could not be restored are retried. */
const RESTORE_RETRY_MS = 2000;
/** Pause between attempts to reach a switch that starts: until its flows are back, guests are unrestricted. */
const EAGER_MS = 10;
/** Pause for one that stays unreachable. */
const UNREACHABLE_MS = 500;
const EAGER_ATTEMPTS = 1000;

/** A bridge with what it is to have, as far as this process was asked for it. */
interface SecuredBridge extends BridgeSecurity {
  readonly name: string;
  /** Connects again by itself as long as the bridge {@link isKept}. */
  readonly client: OpenflowClient;
  /** The last one. */
  connection: OpenflowConnection | undefined;
  readonly ports: Map<string, SecuredPort>;
  /** Secured ports of which no more than the name is known: they send nothing until {@link PortSecurity.ensure}. */
  readonly closed: Set<string>;
  forwarding: boolean;
  /** Whether a port was missing when flows were last restored: the next that comes may have taken its number. */
  isIncomplete: boolean;
}

/** Whether a bridge has flows that are kept. */
const isKept = ({ ports, forwarding }: SecuredBridge): boolean => ports.size > 0 || forwarding;

/**
 * Holds guests to their MAC and addresses, on every bridge. A bridge that has a secured port keeps its connection:
 * when the switch is back, or one of the ports gets another number, the flows are restored at once, from
 * what this process was asked for. A daemon that starts asks for all ports again ({@link ensure}).
 */
export class PortSecurity {
  readonly #runDirectory: string;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #bridges = new Map<string, SecuredBridge>();
  readonly #locks = new KeyedMutex();
  readonly #closing = new AbortController();
  readonly #answers: DhcpAnswers;
  /** Bridges whose flows may be lost. */
  readonly #restores: WorkQueue;

  /**
   * @param runDirectory of the bridges' management sockets; see src/protocols/openflow/connection.ts
   * @param onRequest called for every request for addresses that a guest sends
   */
  constructor(runDirectory: string, logger: Logger, clock: Clock = systemClock, onRequest?: OnGuestRequest) {
    this.#runDirectory = runDirectory;
    this.#logger = logger;
    this.#clock = clock;
    this.#answers = new DhcpAnswers({ clock, logger, closing: this.#closing.signal, onRequest });
    this.#restores = new WorkQueue({
      work: (bridge, signal) => this.#restore(this.#bridge(bridge), signal),
      workers: Number.POSITIVE_INFINITY,
      backoffMs: () => RESTORE_RETRY_MS,
      onFailure: (bridge, err) => logger.error({ bridge, err }, "could not restore port security flows"),
      clock,
    });
    void this.#restores.run(this.#closing.signal);
  }

  /**
   * Installs the flows of a port that the bridge has, and keeps them from then on; true when anything was changed.
   * @throws Failure port-failed, invalid-request, dataplane-*
   */
  ensure(name: string, port: SecuredPort, signal: AbortSignal): Promise<boolean> {
    return this.#locked(name, signal, async (connection, bridge) => {
      const changed = await applyFlows(connection, await planPort(connection, port, signal), signal);
      bridge.ports.set(port.name, port);
      bridge.closed.delete(port.name);
      this.#keep(bridge, connection);
      return changed;
    });
  }

  /**
   * Makes the forwarding of a bridge whose fail_mode is `secure` a flow of ours, installed together with those of
   * the ports that were {@link ensure}d: call it after them. Such a bridge carries nothing between its start and that
   * moment, where another would carry everything. True when anything was changed.
   * @param secured names of all secured ports; those that were not ensured, and have no flows from before, send
   *   nothing until they are
   * @throws Failure dataplane-*
   */
  forward(name: string, secured: readonly string[], signal: AbortSignal): Promise<boolean> {
    return this.#locked(name, signal, async (connection, bridge) => {
      const closed = new Set(secured.filter((port) => !bridge.ports.has(port)));
      const wanted = { ports: bridge.ports, closed, forwarding: true };
      const { changed, complete } = await restoreFlows(connection, wanted, signal);
      bridge.forwarding = true;
      bridge.isIncomplete = !complete;
      bridge.closed.clear();
      for (const port of closed) bridge.closed.add(port);
      this.#keep(bridge, connection);
      return changed;
    });
  }

  /** Stops keeping the forwarding of all bridges but these; their flow stays until the switch or another client removes it. */
  forwardOnly(names: ReadonlySet<string>): void {
    for (const bridge of this.#bridges.values()) {
      if (!bridge.forwarding || names.has(bridge.name)) continue;
      bridge.forwarding = false;
      bridge.closed.clear();
    }
  }

  /** What differs, one sentence each. @throws Failure as {@link ensure} */
  check(name: string, port: SecuredPort, signal: AbortSignal): Promise<readonly string[]> {
    return this.#locked(name, signal, async (connection) => {
      const { add, remove } = await planPort(connection, port, signal);
      const of = `security of port ${port.name}`;
      return [
        ...(add.length === 0 ? [] : [`${add.length} of the flows for the ${of} are missing or changed`]),
        ...(remove.length === 0
          ? []
          : [`${remove.length} flows for the ${of} are left over or of another port`]),
      ];
    });
  }

  /**
   * Forgets a port and removes its flows; true when there were any. A bridge that does not exist has none.
   * @throws Failure dataplane-*
   */
  async remove(name: string, port: string, signal: AbortSignal): Promise<boolean> {
    forget(this.#bridges.get(name), port);
    this.#answers.forget(port);
    const removed = await unlessGone(() =>
      this.#locked(name, signal, (connection, bridge) => {
        forget(bridge, port); // a call that held the lock before may have ensured it again
        return removePortFlows(connection, port, signal);
      }),
    );
    return removed ?? false;
  }

  /**
   * Removes flows of ours whose port the bridge does not have, but for those in `secured` and ensured ones, and flows
   * of ports in `free` that were not ensured; how many.
   * @throws Failure as {@link remove}
   */
  async removeStrays(
    name: string,
    { secured, answered, free }: MarkedPorts,
    signal: AbortSignal,
  ): Promise<number> {
    const removed = await unlessGone(() =>
      this.#locked(name, signal, (connection, { ports }) => {
        const unsecured = free.filter((port) => !ports.has(port));
        const marked = { secured: [...secured, ...ports.keys()], answered, free: unsecured };
        return removeStrayFlows(connection, marked, signal);
      }),
    );
    return removed ?? 0;
  }

  /**
   * The connection to a bridge, for announcements too: it is made when first needed, also for a bridge without secured
   * ports.
   * @throws Failure path-too-long; dataplane-* where the bridge does not answer in an OpenFlow version that we speak
   */
  async connection(name: string, signal: AbortSignal): Promise<OpenflowConnection> {
    return this.#bridge(name).client.connection(signal);
  }

  /** The bridges for which a port of this name was {@link ensure}d. */
  bridgesOf(port: string): readonly string[] {
    return [...this.#bridges.values()].filter(({ ports }) => ports.has(port)).map(({ name }) => name);
  }

  /** Whether a port on this bridge was {@link ensure}d. */
  isSecured(name: string): boolean {
    return (this.#bridges.get(name)?.ports.size ?? 0) > 0;
  }

  /** Ends the connections; the flows stay. */
  close(): void {
    this.#closing.abort();
    for (const { client } of this.#bridges.values()) client.close();
  }

  async #locked<Value>(
    name: string,
    signal: AbortSignal,
    task: (connection: OpenflowConnection, bridge: SecuredBridge) => Promise<Value>,
  ): Promise<Value> {
    const bridge = this.#bridge(name);
    const connection = await bridge.client.connection(signal);
    const lock = { key: name, what: `a change of the flows of bridge ${name}`, signal };
    return this.#locks.run(
      lock,
      () => task(connection, bridge),
      ({ what }) => {
        throw timeoutFailure(signal, { what });
      },
    );
  }

  #bridge(name: string): SecuredBridge {
    const known = this.#bridges.get(name);
    if (known !== undefined) return known;
    const client = createOpenflowClient({
      path: bridgeSocket(this.#runDirectory, name),
      logger: this.#logger,
      clock: this.#clock,
      retryMs: (failures) => {
        if (!isKept(bridge)) return undefined;
        return failures > EAGER_ATTEMPTS ? UNREACHABLE_MS : EAGER_MS;
      },
      onConnected: (connection) => {
        bridge.connection = connection;
        this.#restores.add(name);
        whenAborted(connection.lost, () => {
          if (!isKept(bridge) || this.#closing.signal.aborted) return;
          const fields = { bridge: name, reason: describeThrown(connection.lost.reason) };
          this.#logger[isSwitchAway(connection.lost.reason) ? "debug" : "warn"](
            fields,
            "lost the connection to a bridge with secured ports",
          );
        });
      },
      onPort: ({ name: port }) => {
        const isSecured = bridge.ports.has(port) || bridge.closed.has(port);
        if (bridge.isIncomplete || isSecured) this.#restores.add(name);
      },
      onPacket: (packet) => this.#answers.answer(bridge, packet),
    });
    const bridge: SecuredBridge = {
      ...{ name, client, connection: undefined, ports: new Map(), closed: new Set() },
      ...{ forwarding: false, isIncomplete: false },
    };
    this.#bridges.set(name, bridge);
    return bridge;
  }

  /** For a bridge that was not kept yet: where its connection is lost already, no other follows by itself. */
  #keep({ client }: SecuredBridge, { lost }: OpenflowConnection): void {
    if (lost.aborted) client.connection(this.#closing.signal).catch(() => undefined);
  }

  /** Without a connection nothing can be restored; the next one asks for it. */
  async #restore(bridge: SecuredBridge, closing: AbortSignal): Promise<void> {
    if (!isKept(bridge) || bridge.connection?.lost.aborted !== false) return;
    const signal = within(closing, RESTORE_LIMIT_MS);
    const { changed, complete } = await this.#locked(bridge.name, signal, (connection) =>
      restoreFlows(connection, bridge, signal),
    );
    bridge.isIncomplete = !complete;
    const fields = { bridge: bridge.name, changed: [...bridge.ports.keys()] };
    if (changed) this.#logger.warn(fields, "restored port security flows");
  }
}

function forget(bridge: SecuredBridge | undefined, port: string): void {
  bridge?.ports.delete(port);
  bridge?.closed.delete(port);
}

/** Flows live in the switch's memory: without a process behind the socket none exist. */
async function unlessGone<Value>(task: () => Promise<Value>): Promise<Value | undefined> {
  try {
    return await task();
  } catch (thrown) {
    const code = thrown instanceof Failure ? systemCode(thrown.cause) : undefined;
    if (code === "ENOENT" || code === "ECONNREFUSED") return undefined;
    throw thrown;
  }
}
