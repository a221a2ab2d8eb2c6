import { Failure } from "../../failure/failure.ts";
import type { Logger } from "../../logging/logger.ts";
import { defaultRunDirectory } from "../../protocols/openflow/connection.ts";
import { createOvsdbClient } from "../../protocols/ovsdb/connection.ts";
import { systemClock } from "../../sync/clock.ts";
import { KeyedMutex } from "../../sync/keyed-mutex.ts";
import type { Dataplane } from "../dataplane.ts";
import { checkPort } from "./check-port.ts";
import type { OvsContext } from "./context.ts";
import { ensurePort } from "./ensure-port.ts";
import { FrameSender } from "./frame-sender.ts";
import { inspectPorts } from "./inspect-ports.ts";
import { LinkStates } from "./link-states.ts";
import { listPorts } from "./list-ports.ts";
import { MoveWatch } from "./move-watch.ts";
import { numaNode } from "./numa-node.ts";
import { PortSecurity } from "./port-security/port-security.ts";
import { probe } from "./probe.ts";
import { removePort } from "./remove-port.ts";
import { removeStrays } from "./remove-strays.ts";
import { openHeldBridges, removeStrayFlows } from "./settle-security.ts";
import { version } from "./version.ts";
import { watchLinks } from "./watch-links.ts";
import { type Disturbed, watchPorts } from "./watch-ports.ts";

/** Where the switch is and who asks. */
export interface OvsDataplaneOptions {
  /** Path of ovsdb-server's unix socket, `/var/run/openvswitch/db.sock` in the usual packages. */
  readonly databaseSocket: string;
  /** This node's name: part of the mark on every port. */
  readonly node: string;
  readonly logger: Logger;
  /** Directory of the bridges' OpenFlow sockets, for port security and frames; default that of the database's socket. */
  readonly runDirectory?: string | undefined;
  /** Hears of every connection to the database that is made. */
  readonly onConnected?: (() => void) | undefined;
  /** Hears of ports that somebody else changed or removed. */
  readonly onDisturbed?: ((ports: Disturbed) => void) | undefined;
  /** Where sysfs is mounted; default `/sys`. */
  readonly sysfs?: string;
}

/**
 * OVS-DPDK as a {@link Dataplane}, spoken to through its database. It connects with the first call and again
 * whenever the database comes back. Calls for the same port run one after the other.
 */
export function openOvsDataplane(options: OvsDataplaneOptions): Dataplane {
  const { databaseSocket, node, logger } = options;
  const client = createOvsdbClient({
    path: databaseSocket,
    database: "Open_vSwitch",
    logger,
    onConnected: options.onConnected,
  });
  const runDirectory = options.runDirectory ?? defaultRunDirectory(databaseSocket);
  const security = new PortSecurity({ runDirectory, logger });
  const sender = new FrameSender(runDirectory, logger);
  const links = new LinkStates(node);
  const closing = new AbortController();
  const moves = new MoveWatch({
    turn: (bridge, signal) => sender.turn(bridge, signal),
    clock: systemClock,
    logger,
    closing: closing.signal,
  });
  const context: OvsContext = { client, databaseSocket, node, logger, security };
  const ports = new KeyedMutex();
  const inTurn = <Value>(what: string, name: string, signal: AbortSignal, task: () => Promise<Value>) =>
    ports.run({ key: name, what, signal }, task, (_busy, holder) => {
      throw waitedTooLong(name, holder, signal);
    });
  const { onDisturbed } = options;
  if (onDisturbed !== undefined) {
    const watch = { whenIdle: (name: string) => ports.whenIdle(name), onDisturbed };
    void watchPorts(context, watch, systemClock, closing.signal);
  }
  return {
    capabilities: { forgetsPorts: false, servesInPlace: false },
    probe: (bridge, signal) => probe(context, bridge, signal),
    ensurePort: (request, signal) =>
      inTurn("a call that makes it", request.name, signal, async () => {
        const state = await ensurePort(context, request, signal);
        void sender.prepare(request.bridge, closing.signal);
        return state;
      }),
    removePort: (name, signal) =>
      inTurn("a call that removes it", name, signal, () => removePort(context, name, signal)),
    checkPort: (request, signal) => checkPort(context, request, signal),
    numaNode: (bridge, signal) => numaNode(context, bridge, options.sysfs ?? "/sys", signal),
    listPorts: (signal) => listPorts(context, signal),
    inspectPorts: (signal) => inspectPorts(context, signal),
    version: (signal) => version(context, signal),
    removeStrays: async (signal) =>
      (await removeStrays(context, undefined, signal)) + (await removeStrayFlows(context, signal)),
    enableForwarding: (signal) => openHeldBridges(context, signal),
    watchLinks: (onLink, signal) =>
      watchLinks(context, links, onLink, systemClock, AbortSignal.any([signal, closing.signal])),
    announce: async ({ name, bridge }, frames, signal) => {
      const number = links.numberOf(name);
      if (number === undefined) return false;
      await sender.send(bridge, number, frames, signal);
      return true;
    },
    refreshMacTable: (bridge) => moves.begin(bridge),
    close: async () => {
      closing.abort();
      sender.close();
      security.close();
      client.close();
    },
  };
}

function waitedTooLong(name: string, running: string, signal: AbortSignal): Failure {
  if (signal.reason instanceof Failure) return signal.reason;
  return new Failure({
    code: "dataplane-timeout",
    what: `time was up before the turn of this call for port ${name} came: ${running} is still running`,
    cause: signal.reason,
  });
}
