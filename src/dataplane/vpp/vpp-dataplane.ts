import { timeoutFailure } from "../../failure/failure.ts";
import type { Logger } from "../../logging/logger.ts";
import { createVppClient, type VppConnection } from "../../protocols/vpp-api/connection.ts";
import { systemClock } from "../../sync/clock.ts";
import { within } from "../../sync/deadlines.ts";
import { KeyedMutex } from "../../sync/keyed-mutex.ts";
import type { Dataplane } from "../dataplane.ts";
import { announce, FrameInjector } from "./announce.ts";
import { probe } from "./bridges.ts";
import { checkPort, settledPorts } from "./check-port.ts";
import { ensurePort } from "./ensure-port.ts";
import { removePort, removeStrays } from "./remove-port.ts";
import { startWork, type VppContext } from "./requests.ts";
import { readUplink } from "./uplink.ts";
import { listPorts } from "./view.ts";
import { LinkStates, watchLinks } from "./watch-links.ts";

const VERSION_MS = 2_000;

/** Where the switch is, and for which node. */
export interface VppDataplaneOptions extends Pick<VppContext, "node" | "ownersOf" | "logger"> {
  /** Path of VPP's API socket, `/run/vpp/api.sock` in the usual packages. */
  readonly apiSocket: string;
  /** Called for every connection to VPP that is made; VPP may have forgotten everything before it. */
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
  const sysfs = options.sysfs ?? "/sys";
  const context: VppContext = { client, node, ownersOf, gateways: new KeyedMutex(), sysfs, logger };
  const links = new LinkStates(node);
  const injector = new FrameInjector();
  const closing = new AbortController();
  const ports = new KeyedMutex();
  const locked = <Value>(name: string, what: string, signal: AbortSignal, task: () => Promise<Value>) =>
    ports.run({ key: name, what, signal }, task, (_busy, holder) => {
      throw timeoutFailure(signal, {
        what: `${what} of port ${name} timed out while ${holder} is still running`,
      });
    });
  return {
    capabilities: { forgetsPorts: true, servesInPlace: true, answersDhcp: false },
    probe: (bridge, signal) => probe(context, bridge, signal),
    ensurePort: (request, signal) =>
      locked(request.name, "making", signal, () => ensurePort(context, request, signal)),
    removePort: (name, signal) => locked(name, "removal", signal, () => removePort(context, name, signal)),
    checkPort: (request, signal) => checkPort(context, request, signal),
    settledPorts: (requests, signal) => settledPorts(context, requests, signal),
    uplink: (bridge, signal) => readUplink(context, bridge, signal),
    listPorts: (signal) => listPorts(context, signal),
    // Its counters and queues are in its statistics segment, which is shared memory and not in its binary API.
    inspectPorts: (signal) => listPorts(context, signal),
    version: async (signal) => `VPP ${await (await client.connection(signal)).version(signal)}`,
    removeStrays: async (signal) =>
      (await removeStrays(context, signal)) + (await injector.removeStrays(await startWork(context, signal))),
    watchLinks: (onLink, signal) =>
      watchLinks(context, links, onLink, systemClock, AbortSignal.any([signal, closing.signal])),
    announce: ({ name }, frames, signal) => announce(context, { links, injector }, name, frames, signal),
    close: async () => {
      closing.abort();
      client.close();
    },
  };
}

/** For people who read the log; nothing depends on it. */
async function logVersion(connection: VppConnection, logger: Logger): Promise<void> {
  const signal = within(connection.lost, VERSION_MS);
  const version = await connection.version(signal).catch(() => "unknown");
  logger.info({ version }, "connected to VPP");
}
