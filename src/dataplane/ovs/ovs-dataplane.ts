import { dirname } from "node:path";
import { timeoutFailure } from "../../failure/failure.ts";
import { output, PORT, packetOut } from "../../protocols/openflow/action.ts";
import { createOvsdbClient } from "../../protocols/ovsdb/connection.ts";
import { systemClock } from "../../sync/clock.ts";
import { whenAborted } from "../../sync/deadlines.ts";
import { KeyedMutex } from "../../sync/keyed-mutex.ts";
import type { Dataplane, LinkChange } from "../dataplane.ts";
import type { OvsContext } from "./database.ts";
import type { OnGuestRequest } from "./dhcp/answer-packet.ts";
import { PortLinks } from "./links/port-links.ts";
import { macTableRefresher } from "./links/refresh-mac-table.ts";
import { type DisturbedPorts, watchDatabase } from "./links/watch-database.ts";
import { probe, version } from "./misconfiguration.ts";
import { checkPort } from "./ports/check-port.ts";
import { ensurePort } from "./ports/ensure-port.ts";
import { inspectPorts, listPorts } from "./ports/list-ports.ts";
import { removePort, removeStrayLimits } from "./ports/remove-port.ts";
import { PortSecurity } from "./security/port-security.ts";
import { enableForwarding, removeStraySecurity } from "./security/secured-ports.ts";
import { readUplink } from "./uplink.ts";

/** Where the switch is and what it reports to. */
export interface OvsDataplaneOptions extends Pick<OvsContext, "databaseSocket" | "node" | "logger"> {
  /** Directory of the bridges' OpenFlow sockets, for port security and frames; default that of the database's socket. */
  readonly runDirectory?: string | undefined;
  /** Called after every connection to the database. */
  readonly onConnected?: (() => void) | undefined;
  /** Called with ports that another client changed or removed. */
  readonly onDisturbed?: ((ports: DisturbedPorts) => void) | undefined;
  /** Called for every request for addresses that a guest sends. */
  readonly onGuestRequest?: OnGuestRequest | undefined;
  /** Where sysfs is mounted; default `/sys`. */
  readonly sysfs?: string;
}

/**
 * OVS-DPDK as a {@link Dataplane}, by its database. It connects with the first call and again whenever the database
 * comes back. Calls for the same port run one after the other.
 */
export function openOvsDataplane(options: OvsDataplaneOptions): Dataplane {
  const { databaseSocket, node, logger } = options;
  const client = createOvsdbClient({
    path: databaseSocket,
    database: "Open_vSwitch",
    logger,
    onConnected: options.onConnected,
  });
  const security = new PortSecurity(
    options.runDirectory ?? dirname(databaseSocket),
    logger,
    systemClock,
    options.onGuestRequest,
  );
  const links = new PortLinks(node);
  const closing = new AbortController();
  // A barrier alone.
  const wake = async (bridge: string, signal: AbortSignal) =>
    (await security.connection(bridge, signal)).exchange([], signal);
  const refreshMacTable = macTableRefresher(wake, { clock: systemClock, logger, closing: closing.signal });
  const context: OvsContext = {
    ...{ client, databaseSocket, node, logger, security },
    clock: systemClock,
    isSwitchDown: false,
  };
  const ports = new KeyedMutex();
  const locked = <Value>(verb: string, name: string, signal: AbortSignal, task: () => Promise<Value>) =>
    ports.run({ key: name, what: `${verb} port ${name}`, signal }, task, ({ what }) => {
      throw timeoutFailure(signal, { what });
    });
  const linkListeners = new Set<(change: LinkChange) => void>();
  let isWatched = false;
  const ensureWatch = () => {
    if (isWatched) return;
    isWatched = true;
    void watchDatabase(context, {
      links,
      onLink: (change) => linkListeners.forEach((onLink) => void onLink(change)),
      onDisturbed: (names) => options.onDisturbed?.(names),
      whenIdle: (name) => ports.whenIdle(name),
      clock: systemClock,
      signal: closing.signal,
    });
  };
  if (options.onDisturbed !== undefined) ensureWatch();
  return {
    capabilities: { forgetsPorts: false, servesInPlace: false, answersDhcp: true },
    probe: (bridge, signal) => probe(context, bridge, signal),
    ensurePort: (request, signal) =>
      locked("ensuring", request.name, signal, async () => {
        const state = await ensurePort(context, request, signal);
        // For announcements, where every millisecond counts; a bridge that speaks no OpenFlow carries ports all the same.
        security.connection(request.bridge, closing.signal).catch(() => undefined);
        return state;
      }),
    removePort: (name, signal) => locked("removing", name, signal, () => removePort(context, name, signal)),
    checkPort: (request, signal) => checkPort(context, request, signal),
    uplink: (bridge, signal) => readUplink(context, bridge, options.sysfs ?? "/sys", signal),
    listPorts: (signal) => listPorts(context, signal),
    inspectPorts: (signal) => inspectPorts(context, signal),
    version: (signal) => version(context, signal),
    removeStrays: async (signal) =>
      (await removeStrayLimits(context, undefined, signal)) + (await removeStraySecurity(context, signal)),
    enableForwarding: (signal) => enableForwarding(context, signal),
    watchLinks: async (onLink, signal) => {
      linkListeners.add(onLink);
      ensureWatch();
      const ended = AbortSignal.any([signal, closing.signal]);
      await new Promise<void>((resolve) => whenAborted(ended, resolve));
      linkListeners.delete(onLink);
    },
    announce: async ({ name, bridge }, frames, signal) => {
      const inPort = links.numberOf(name);
      if (inPort === undefined) return false;
      const connection = await security.connection(bridge, signal);
      const actions = [output(PORT.normal)];
      const requests = frames.map((frame) => packetOut({ inPort, actions, frame: Buffer.from(frame) }));
      await connection.exchange(requests, signal);
      return true;
    },
    refreshMacTable,
    close: async () => {
      closing.abort();
      security.close();
      client.close();
    },
  };
}
