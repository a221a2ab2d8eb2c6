import { Failure } from "../../failure/failure.ts";
import type { Logger } from "../../logging/logger.ts";
import type { VppConnection } from "../../protocols/vpp-api/connection.ts";
import { createVppClient } from "../../protocols/vpp-api/connection.ts";
import { showVersion } from "../../protocols/vpp-api/messages.ts";
import { systemClock } from "../../sync/clock.ts";
import { within } from "../../sync/deadlines.ts";
import { KeyedMutex } from "../../sync/keyed-mutex.ts";
import type { Dataplane } from "../dataplane.ts";
import type { PortOwner } from "../port.ts";
import { GuestAnnouncer } from "./announce.ts";
import { checkPort } from "./check-port.ts";
import type { VppContext } from "./context.ts";
import { ensurePort } from "./ensure-port.ts";
import { FrameInjector } from "./frame-injector.ts";
import { LinkStates } from "./link-states.ts";
import { listPorts } from "./list-ports.ts";
import { numaNode } from "./numa-node.ts";
import { probe } from "./probe.ts";
import { removePort } from "./remove-port.ts";
import { removeStrays } from "./remove-strays.ts";
import { SharedViews } from "./shared-views.ts";
import { version } from "./version.ts";
import { watchLinks } from "./watch-links.ts";

/** Where the switch is and who asks. */
export interface VppDataplaneOptions {
  /** Path of VPP's API socket, `/run/vpp/api.sock` in the usual packages. */
  readonly apiSocket: string;
  /** This node's name: part of the mark on every port. */
  readonly node: string;
  /** Owners for which a port of this name was ever asked and is not given up: VPP keeps digests of them only. */
  readonly ownersOf: (port: string) => readonly PortOwner[];
  readonly logger: Logger;
  /** Hears of every connection to VPP that is made; VPP may have forgotten everything before it. */
  readonly onConnected?: (() => void) | undefined;
  /** Where sysfs is mounted; default `/sys`. */
  readonly sysfs?: string;
}

/**
 * VPP as a {@link Dataplane}, spoken to through its binary API. It connects with the first call and again whenever
 * VPP comes back. Calls for the same port run one after the other.
 */
export function openVppDataplane(options: VppDataplaneOptions): Dataplane {
  const { apiSocket, node, logger, ownersOf } = options;
  const onConnected = (connection: VppConnection) => {
    void logVersion(connection, logger);
    options.onConnected?.();
  };
  const client = createVppClient({ path: apiSocket, logger, onConnected });
  const views = new SharedViews();
  const context: VppContext = {
    client,
    views,
    node,
    ownersOf,
    gateways: new KeyedMutex(),
    sysfs: options.sysfs ?? "/sys",
    logger,
  };
  const links = new LinkStates(node);
  const injector = new FrameInjector();
  const announcer = new GuestAnnouncer(context, links, injector);
  const closing = new AbortController();
  const ports = new KeyedMutex();
  const inTurn = <Value>(what: string, name: string, signal: AbortSignal, task: () => Promise<Value>) =>
    ports.run({ key: name, what, signal }, task, (_busy, holder) => {
      throw waitedTooLong(name, holder, signal);
    });
  return {
    capabilities: { forgetsPorts: true, servesInPlace: true },
    probe: (bridge, signal) => probe(context, bridge, signal),
    ensurePort: (request, signal) =>
      inTurn("a call that makes it", request.name, signal, () => ensurePort(context, request, signal)),
    removePort: (name, signal) =>
      inTurn("a call that removes it", name, signal, () => removePort(context, name, signal)),
    checkPort: (request, signal) => checkPort(context, request, signal),
    numaNode: (bridge, signal) => numaNode(context, bridge, signal),
    listPorts: (signal) => listPorts(context, signal),
    // Its counters and queues are in its statistics segment, which is shared memory and not in its binary API.
    inspectPorts: (signal) => listPorts(context, signal),
    version: (signal) => version(context, signal),
    removeStrays: async (signal) =>
      (await removeStrays(context, signal)) +
      (await injector.removeStrays(await client.connection(signal), signal)),
    watchLinks: (onLink, signal) =>
      watchLinks(context, links, onLink, systemClock, AbortSignal.any([signal, closing.signal])),
    announce: ({ name }, frames, signal) => announcer.announce(name, frames, signal),
    close: async () => {
      closing.abort();
      client.close();
    },
  };
}

/** Who helps with a node wants to know which VPP it is; nothing else depends on it. */
async function logVersion(connection: VppConnection, logger: Logger): Promise<void> {
  const signal = within(connection.lost, VERSION_MS);
  const answer = await connection.request(showVersion, {}, signal).catch(() => undefined);
  logger.info({ version: answer?.version ?? "not told" }, "connected to VPP");
}

const VERSION_MS = 2_000;

function waitedTooLong(name: string, running: string, signal: AbortSignal): Failure {
  if (signal.reason instanceof Failure) return signal.reason;
  return new Failure({
    code: "dataplane-timeout",
    what: `time was up before the turn of this call for port ${name} came: ${running} is still running`,
    cause: signal.reason,
  });
}
