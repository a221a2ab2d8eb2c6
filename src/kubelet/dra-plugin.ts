// A DRA driver as kubelet sees it: a registration socket in kubelet's directory, and a socket with the driver's services.
import { mkdir } from "node:fs/promises";
import type { handleUnaryCall } from "@grpc/grpc-js";
import { describeThrown } from "../failure/failure.ts";
import { watchDirectory } from "../files/watch-directory.ts";
import { loadService } from "../grpc/load-service.ts";
import { serveUnix, type UnixServer } from "../grpc/unix-server.ts";
import { WorkQueue } from "../sync/work-queue.ts";
import { DRA_SERVICES, type DraServiceOptions, draService, HEALTH_EVERY_MS } from "./dra-service.ts";
import { type DraPlaces, draSockets, removeStaleDraSockets } from "./dra-sockets.ts";
import { socketIdentity } from "./socket-identity.ts";

/** What a driver is started with. */
export interface DraPluginOptions extends DraPlaces, DraServiceOptions {}

/** A driver that runs until it is closed. */
export interface DraPlugin {
  readonly driver: string;
  /** What kubelet said last, and how often it took a registration. */
  readonly registered: boolean;
  readonly registrations: number;
  /** To be called when the health of a device has changed. */
  healthChanged(): void;
  close(): Promise<void>;
}

const REGISTRATION = loadService("kubelet/pluginregistration-v1.proto", "pluginregistration.Registration");

/** Milliseconds for running calls to end. */
const CALL_GRACE_MS = 2_000;

interface RegistrationStatus {
  readonly plugin_registered: boolean;
  readonly error: string;
}

/**
 * Serves a driver and keeps its sockets in place. Kubelet finds the registration socket when it starts and when it
 * appears, asks it who is there, and calls the services from then on; no call of ours is needed, so none can be missed.
 * For one instance of a driver at a time.
 * @throws Failure path-too-long or directory-unsafe, when a socket's path cannot be used
 */
export function startDraPlugin(options: DraPluginOptions): DraPlugin {
  const { driver, registryDirectory, pluginDirectory, clock, logger } = options;
  const sockets = draSockets(options);
  const service = draService(options);
  const stop = new AbortController();
  let registered = false;
  let registrations = 0;
  let lastProblem: string | undefined;
  let isFirst = true;
  /** The service, then the registration, for kubelet calls the service when it has seen the other. */
  let served: readonly { readonly server: UnixServer; readonly identity: string | undefined }[] = [];

  const getInfo: handleUnaryCall<object, object> = (_call, respond) =>
    respond(null, {
      type: "DRAPlugin",
      name: driver,
      endpoint: sockets.service,
      supported_versions: DRA_SERVICES,
    });
  const notify: handleUnaryCall<RegistrationStatus, object> = ({ request }, respond) => {
    registered = request.plugin_registered;
    if (registered) {
      registrations += 1;
      logger.info({ resource: driver }, "registered with kubelet");
    } else logger.error({ resource: driver, reason: request.error }, "kubelet refused the registration");
    respond(null, {});
  };

  const serve = async () => {
    if (await isServed(served)) return;
    // A socket is removed by its name when its server closes, so old ones close before new ones listen.
    await closeAll();
    await mkdir(pluginDirectory, { recursive: true, mode: 0o750 });
    if (isFirst) await removeStaleDraSockets(driver, sockets);
    isFirst = false;
    for (const [socketPath, services] of [
      [sockets.service, service.services],
      [
        sockets.registration,
        [
          {
            definition: REGISTRATION.definition,
            implementation: { GetInfo: getInfo, NotifyRegistrationStatus: notify },
          },
        ],
      ],
    ] as const) {
      const server = await serveUnix({ socketPath, services });
      served = [...served, { server, identity: await socketIdentity(socketPath) }];
    }
    lastProblem = undefined;
  };
  /** The registration first, so that kubelet sees none without its service. */
  const closeAll = async () => {
    registered = false;
    const [ofService, ofRegistration] = served;
    served = [];
    await ofRegistration?.server.close();
    await ofService?.server.close(CALL_GRACE_MS);
  };

  const queue = new WorkQueue({
    work: async () => {
      service.sendHealth();
      await serve();
    },
    resync: { everyMs: HEALTH_EVERY_MS, keys: () => ["serve"] },
    onFailure: (_key, error) => {
      const reason = describeThrown(error);
      const level = reason === lastProblem ? "debug" : "warn";
      lastProblem = reason;
      logger[level]({ resource: driver, reason }, "not serving kubelet, trying again");
    },
    clock,
  });
  queue.add("serve");
  const running = queue.run(stop.signal);
  const watch = watchDirectory({
    path: registryDirectory,
    onChange: () => queue.add("serve"),
    onError: (error) =>
      logger.warn({ err: error, resource: driver }, "watching kubelet's directory failed, polling"),
    clock,
  });

  return {
    driver,
    get registered() {
      return registered;
    },
    get registrations() {
      return registrations;
    },
    healthChanged: () => service.sendHealth(),
    close: async () => {
      await watch.close();
      stop.abort();
      await running;
      const [, registration] = served;
      await registration?.server.close();
      await service.end(CALL_GRACE_MS);
      await closeAll();
    },
  };
}

/** Whether both sockets are where kubelet looks for them, and are ours. */
async function isServed(
  served: readonly { readonly server: UnixServer; readonly identity: string | undefined }[],
): Promise<boolean> {
  if (served.length < 2) return false;
  for (const { server, identity } of served) {
    if (identity === undefined || (await socketIdentity(server.socketPath)) !== identity) return false;
  }
  return true;
}
