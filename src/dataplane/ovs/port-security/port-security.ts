import { describeThrown, Failure, systemCode } from "../../../failure/failure.ts";
import type { Logger } from "../../../logging/logger.ts";
import type { OpenflowConnection } from "../../../protocols/openflow/connection.ts";
import { bridgeSocket, createOpenflowClient } from "../../../protocols/openflow/connection.ts";
import { type Clock, systemClock } from "../../../sync/clock.ts";
import { within } from "../../../sync/deadlines.ts";
import { KeyedMutex } from "../../../sync/keyed-mutex.ts";
import {
  checkPortSecurity,
  ensurePortSecurity,
  removePortSecurity,
  removeStrayFlows,
  restorePortSecurity,
  type SecuredPort,
} from "./secure-ports.ts";
import { watchBridge } from "./watch-bridge.ts";
import { type WatchedBridge, waitedTooLong, wantedOf } from "./watched-bridge.ts";

const RESTORE_LIMIT_MS = 5000;

/** Where the bridges are reached and who hears of it. */
export interface PortSecurityOptions {
  /** Directory of the bridges' management sockets; see src/protocols/openflow/connection.ts. */
  readonly runDirectory: string;
  readonly logger: Logger;
  /** Hears when flows of a bridge that had been lost, or were wrong, were put back. */
  readonly onRestored?: (bridge: string) => void;
  readonly clock?: Clock;
}

/**
 * Holds guests to their MAC and addresses, on every bridge. A bridge that has a secured port is watched over a lasting
 * connection: when the switch is back, or one of the ports gets another number, the flows are put right at once,
 * from what this process was told. A daemon that starts tells it all ports again ({@link ensure}).
 */
export class PortSecurity {
  readonly #options: PortSecurityOptions;
  readonly #bridges = new Map<string, WatchedBridge>();
  readonly #turns = new KeyedMutex();
  readonly #closing = new AbortController();

  constructor(options: PortSecurityOptions) {
    this.#options = options;
  }

  /**
   * Installs the flows of a port that the bridge has, and keeps them from then on; true when anything was changed.
   * @throws Failure port-failed, invalid-request, dataplane-misconfigured, dataplane-unavailable, dataplane-timeout,
   *   dataplane-protocol
   */
  async ensure(bridge: string, port: SecuredPort, signal: AbortSignal): Promise<boolean> {
    return this.#inTurn(bridge, signal, async (connection, state) => {
      const changed = await ensurePortSecurity(connection, port, signal);
      state.ports.set(port.name, port);
      state.closed = new Set([...state.closed].filter((name) => name !== port.name));
      this.#watch(bridge, state, connection);
      return changed;
    });
  }

  /**
   * Makes the forwarding of a bridge whose fail_mode is `secure` a flow of ours, installed together with those of
   * the ports that {@link ensure} was told: call it after them. Such a bridge carries nothing between its start and
   * that moment, where another would carry everything. True when anything was changed.
   * @param secured names of all ports that are to be held; those that {@link ensure} was not told, and that have no
   *   flows from before, send nothing until it is
   * @throws Failure dataplane-misconfigured, dataplane-unavailable, dataplane-timeout, dataplane-protocol
   */
  async forward(bridge: string, secured: readonly string[], signal: AbortSignal): Promise<boolean> {
    return this.#inTurn(bridge, signal, async (connection, state) => {
      const closed = new Set(secured.filter((name) => !state.ports.has(name)));
      const wanted = { ...wantedOf(state), closed, forwarding: true };
      const { changed, complete } = await restorePortSecurity(connection, wanted, signal);
      state.forwarding = true;
      state.closed = closed;
      state.incomplete = !complete;
      this.#watch(bridge, state, connection);
      return changed;
    });
  }

  /** Keeps the forwarding of a bridge no longer; its flow stays until the switch or somebody else removes it. */
  leave(bridge: string): void {
    const state = this.#bridges.get(bridge);
    if (state === undefined || !state.forwarding) return;
    state.forwarding = false;
    state.closed = new Set();
    this.#unwatch(state);
  }

  /** What differs, one sentence each. @throws Failure as {@link ensure} */
  check(bridge: string, port: SecuredPort, signal: AbortSignal): Promise<readonly string[]> {
    return this.#inTurn(bridge, signal, (connection) => checkPortSecurity(connection, port, signal));
  }

  /**
   * Forgets a port and removes its flows; true when there were any. A bridge that nobody serves has none.
   * @throws Failure dataplane-misconfigured, dataplane-unavailable, dataplane-timeout, dataplane-protocol
   */
  async remove(bridge: string, name: string, signal: AbortSignal): Promise<boolean> {
    this.#forget(bridge, name);
    return this.#unlessGone(() =>
      this.#inTurn(bridge, signal, (connection) => {
        this.#forget(bridge, name); // a call that ended before this one's turn may have told it again
        return removePortSecurity(connection, name, signal);
      }),
    ).then((removed) => removed ?? false);
  }

  /**
   * Removes flows of ours whose port the bridge does not have, but for those in `keep` and those told to
   * {@link ensure}, and flows of ports in `free` that it was not told; how many.
   * @throws Failure as {@link remove}
   */
  async removeStray(
    bridge: string,
    { keep, free = [] }: { readonly keep: readonly string[]; readonly free?: readonly string[] },
    signal: AbortSignal,
  ): Promise<number> {
    return this.#unlessGone(() =>
      this.#inTurn(bridge, signal, (connection, { ports }) =>
        removeStrayFlows(
          connection,
          { keep: [...keep, ...ports.keys()], free: free.filter((name) => !ports.has(name)) },
          signal,
        ),
      ),
    ).then((removed) => removed ?? 0);
  }

  /**
   * Whether the bridge answers in an OpenFlow that we speak.
   * @throws Failure dataplane-misconfigured, dataplane-unavailable, dataplane-timeout, dataplane-protocol where not
   */
  async reach(bridge: string, signal: AbortSignal): Promise<void> {
    await this.#state(bridge).client.connection(signal);
  }

  /** The bridges for which {@link ensure} was told a port of this name. */
  bridgesOf(name: string): readonly string[] {
    return [...this.#bridges].filter(([, { ports }]) => ports.has(name)).map(([bridge]) => bridge);
  }

  /** Whether there is a port on this bridge that {@link ensure} was told. */
  isSecured(bridge: string): boolean {
    return (this.#bridges.get(bridge)?.ports.size ?? 0) > 0;
  }

  /** All bridges that were ever asked for. */
  bridges(): readonly string[] {
    return [...this.#bridges.keys()];
  }

  /** Ends the connections; the flows stay. */
  close(): void {
    this.#closing.abort();
    for (const { client } of this.#bridges.values()) client.close();
  }

  #forget(bridge: string, name: string): void {
    const state = this.#bridges.get(bridge);
    if (state === undefined) return;
    state.ports.delete(name);
    state.closed = new Set([...state.closed].filter((other) => other !== name));
    this.#unwatch(state);
  }

  #unwatch(state: WatchedBridge): void {
    if (state.ports.size > 0 || state.forwarding) return;
    state.watch?.abort();
    state.watch = undefined;
  }

  /** Flows live in the switch's memory: with nobody behind the socket there are none. */
  async #unlessGone<Value>(task: () => Promise<Value>): Promise<Value | undefined> {
    try {
      return await task();
    } catch (thrown) {
      const code = thrown instanceof Failure ? systemCode(thrown.cause) : undefined;
      if (code === "ENOENT" || code === "ECONNREFUSED") return undefined;
      throw thrown;
    }
  }

  async #inTurn<Value>(
    bridge: string,
    signal: AbortSignal,
    task: (connection: OpenflowConnection, state: WatchedBridge) => Promise<Value>,
  ): Promise<Value> {
    const state = this.#state(bridge);
    const connection = await state.client.connection(signal);
    const turn = { key: bridge, what: "a change of its flows", signal };
    return this.#turns.run(
      turn,
      () => task(connection, state),
      () => {
        throw waitedTooLong(bridge, signal);
      },
    );
  }

  #state(bridge: string): WatchedBridge {
    const known = this.#bridges.get(bridge);
    if (known !== undefined) return known;
    const path = bridgeSocket(this.#options.runDirectory, bridge);
    const client = createOpenflowClient({
      path,
      logger: this.#options.logger,
      onPort: ({ name }) => {
        if (state.incomplete || state.ports.has(name) || state.closed.has(name))
          void this.#restore(bridge, state);
      },
    });
    const state: WatchedBridge = {
      client,
      ports: new Map(),
      closed: new Set(),
      forwarding: false,
      watch: undefined,
      again: false,
      incomplete: false,
    };
    this.#bridges.set(bridge, state);
    return state;
  }

  /** @param served connection over which the flows were put right a moment ago */
  #watch(bridge: string, state: WatchedBridge, served: OpenflowConnection): void {
    if (state.watch !== undefined) return;
    state.watch = new AbortController();
    void watchBridge({
      client: state.client,
      clock: this.#options.clock ?? systemClock,
      signal: AbortSignal.any([state.watch.signal, this.#closing.signal]),
      onConnected: async (connection) => connection === served || (await this.#restore(bridge, state)),
      onLost: (why) =>
        this.#options.logger.warn(
          { bridge, reason: describeThrown(why) },
          "lost the bridge that holds guests back",
        ),
    });
  }

  /** One at a time; what changes while it runs is seen by another right after it. False where it failed. */
  async #restore(bridge: string, state: WatchedBridge): Promise<boolean> {
    if (state.again) return true;
    state.again = true;
    const { logger } = this.#options;
    const signal = within(this.#closing.signal, RESTORE_LIMIT_MS);
    try {
      const { changed, complete } = await this.#inTurn(bridge, signal, (connection) => {
        state.again = false;
        return restorePortSecurity(connection, wantedOf(state), signal);
      });
      state.incomplete = !complete;
      if (!changed) return true;
      logger.warn(
        { bridge, changed: [...state.ports.keys()] },
        "put back the flows that hold guests to their addresses",
      );
      this.#options.onRestored?.(bridge);
      return true;
    } catch (thrown) {
      state.again = false;
      if (this.#closing.signal.aborted) return true;
      logger.error(
        { bridge, err: thrown },
        "could not put back the flows that hold guests to their addresses",
      );
      return false;
    }
  }
}
