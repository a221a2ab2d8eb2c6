import { join } from "node:path";
import { Failure } from "../failure/failure.ts";
import { loadService } from "../grpc/load-service.ts";
import { serveUnix } from "../grpc/unix-server.ts";
import type { KubeletPaths } from "../kubelet/paths.ts";
import { registerDevicePlugin } from "../kubelet/registration.ts";
import { watchRestarts } from "../kubelet/restart-watch.ts";
import type { Logger } from "../logging/logger.ts";
import { checkUnixPath } from "../names/unix-path.ts";
import { type Clock, systemClock } from "../sync/clock.ts";
import type { Allocate } from "./allocation-answer.ts";
import { DEVICE_PLUGIN_OPTIONS, devicePluginService } from "./device-plugin-service.ts";
import type { DeviceSource } from "./device-source.ts";
import { DeviceStreams } from "./list-and-watch.ts";
import { pluginSocketName } from "./plugin-socket-name.ts";
import { RegistrationKeeper } from "./registration-keeper.ts";
import { RunningCalls } from "./running-calls.ts";

/** One resource's plugin. */
export interface DevicePluginOptions {
  /** Extended resource, for example `vhostuser/sockets`. */
  readonly resource: string;
  readonly kubelet: KubeletPaths;
  readonly devices: DeviceSource;
  readonly allocate: Allocate;
  readonly logger: Logger;
  /** File name in the plugin directory; default made from the resource. */
  readonly socketName?: string;
  readonly clock?: Clock;
  /** Milliseconds between looks for a restart of kubelet that no event told of; default 10 000. */
  readonly pollMs?: number;
}

/** A plugin that runs until it is closed. */
export interface DevicePlugin {
  /** Resolves when kubelet has been sent the first device list; rejects when closed before. */
  readonly ready: Promise<void>;
  /** Whether kubelet has it registered, and how often it took a registration. */
  readonly registered: boolean;
  readonly registrations: number;
  /** Compares the device list with what kubelet was sent, as after a change of the source. */
  refresh(): void;
  /** Ends streams and calls and removes the socket. kubelet then sees no healthy device. */
  close(): Promise<void>;
}

/** Read once for all plugins. */
const SERVICE = loadService("kubelet/device-plugin-v1beta1.proto", "v1beta1.DevicePlugin");

/** Milliseconds for running calls to end. */
const CALL_GRACE_MS = 2_000;

/**
 * Serves one resource and keeps it registered: through restarts of kubelet, which deletes every socket in its
 * directory, and while kubelet is not there at all. Nothing that kubelet does ends it.
 * @throws Failure path-too-long or directory-unsafe, when the socket's path cannot be used
 */
export function startDevicePlugin(options: DevicePluginOptions): DevicePlugin {
  const { resource, kubelet, devices, logger } = options;
  const clock = options.clock ?? systemClock;
  const endpoint = options.socketName ?? pluginSocketName(resource);
  const ownSocket = checkUnixPath(join(kubelet.pluginDirectory, endpoint), `device plugin of ${resource}`);

  const ready = Promise.withResolvers<void>();
  // Whoever does not wait for it is not interested in its end either.
  ready.promise.catch(() => undefined);
  const streams = new DeviceStreams({
    devices,
    onOpened: () => ready.resolve(),
    onLost: () => keeper.streamLost(),
  });
  const calls = new RunningCalls();
  const implementation = devicePluginService({
    ...options,
    allocate: calls.track(options.allocate),
    streams,
  });

  const keeper = new RegistrationKeeper({
    resource,
    ownSocket,
    kubeletSocket: kubelet.kubeletSocket,
    listen: async () => {
      const server = await serveUnix({
        socketPath: ownSocket,
        services: [{ definition: SERVICE.definition, implementation }],
      });
      return {
        close: async () => {
          // Without a stream there is no kubelet that waits for an answer.
          const isQuiet = streams.open === 0 || (await calls.over(clock, CALL_GRACE_MS));
          streams.endAll();
          await server.close(isQuiet ? CALL_GRACE_MS : 0);
        },
      };
    },
    register: (signal) =>
      registerDevicePlugin({
        kubeletSocket: kubelet.kubeletSocket,
        resource,
        endpoint,
        options: DEVICE_PLUGIN_OPTIONS,
        signal,
      }),
    openStreams: () => streams.open,
    clock,
    logger,
  });
  const watch = watchRestarts({
    directory: kubelet.pluginDirectory,
    onLook: () => keeper.look(),
    onError: (error) => logger.warn({ err: error, resource }, "watching kubelet's directory failed, polling"),
    clock,
    pollMs: options.pollMs ?? 10_000,
  });
  const unsubscribe = devices.subscribe(() => streams.refresh());

  return {
    ready: ready.promise,
    get registered() {
      return keeper.registered;
    },
    get registrations() {
      return keeper.registrations;
    },
    refresh: () => streams.refresh(),
    close: async () => {
      unsubscribe();
      await watch.close();
      await keeper.close();
      // Those that were cut off take back what they made, and whoever serves next counts on from what is left.
      await calls.over(clock, CALL_GRACE_MS);
      ready.reject(
        new Failure({ code: "kubelet-unavailable", what: `the plugin of ${resource} was closed` }),
      );
    },
  };
}
