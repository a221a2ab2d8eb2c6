// One resource's plugin: kubelet's calls, its registration, and its device list.
import { createHash } from "node:crypto";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import type { handleUnaryCall, UntypedServiceImplementation } from "@grpc/grpc-js";
import { Failure } from "../failure/failure.ts";
import { watchDirectory } from "../files/watch-directory.ts";
import { loadService } from "../grpc/load-service.ts";
import { toServiceError } from "../grpc/status.ts";
import { serveUnix } from "../grpc/unix-server.ts";
import type { KubeletPaths } from "../kubelet/paths.ts";
import { type DevicePluginOptions, registerDevicePlugin } from "../kubelet/registration.ts";
import type { Logger } from "../logging/logger.ts";
import { checkUnixPath } from "../names/unix-path.ts";
import { type Clock, systemClock } from "../sync/clock.ts";
import { type Allocate, type AllocateRequest, answerAllocate } from "./allocate.ts";
import { type DeviceStream, type DeviceStreams, deviceStreams } from "./list-and-watch.ts";
import type { DeviceSource } from "./pool-devices.ts";
import { type PreferredAllocationRequest, preferDevices } from "./preferred-allocation.ts";
import { RegistrationKeeper } from "./registration-keeper.ts";

/** What a plugin is started with. */
export interface StartDevicePluginOptions {
  /** Extended resource, for example `vhostuser/sockets`. */
  readonly resource: string;
  readonly kubelet: KubeletPaths;
  readonly devices: DeviceSource;
  readonly allocate: Allocate;
  readonly logger: Logger;
  readonly clock?: Clock;
  /** Milliseconds between looks for a restart of kubelet that no event caused; default 10 000. */
  readonly pollMs?: number;
}

/** A plugin that runs until it is closed. */
export interface DevicePlugin {
  readonly resource: string;
  /** Whether kubelet has it registered, and how often it took a registration. */
  readonly registered: boolean;
  readonly registrations: number;
  /** Ends streams and calls and removes the socket. kubelet then sees no healthy device. */
  close(): Promise<void>;
}

const SERVICE = loadService("kubelet/device-plugin-v1beta1.proto", "v1beta1.DevicePlugin");

/** kubelet need not ask before a container starts, but is to ask which devices we prefer. */
const OPTIONS: DevicePluginOptions = { pre_start_required: false, get_preferred_allocation_available: true };

/** Milliseconds for running calls to end. */
const CALL_GRACE_MS = 2_000;

/**
 * Serves one resource and keeps it registered: through restarts of kubelet, which deletes every socket in its
 * directory, and while kubelet is not there at all. Nothing that kubelet does ends it.
 * @throws Failure path-too-long or directory-unsafe, when the socket's path cannot be used
 */
export function startDevicePlugin(options: StartDevicePluginOptions): DevicePlugin {
  const { resource, kubelet, devices, logger } = options;
  const clock = options.clock ?? systemClock;
  const endpoint = pluginSocketName(resource);
  const ownSocket = checkUnixPath(join(kubelet.pluginDirectory, endpoint), `device plugin of ${resource}`);

  const streams = deviceStreams(devices, () => keeper.streamLost());
  const calls = new Set<Promise<unknown>>();
  const implementation = handlers({ ...options, streams, calls });

  const keeper = new RegistrationKeeper({
    resource,
    ownSocket,
    kubeletSocket: kubelet.kubeletSocket,
    listen: async () => {
      const services = [{ definition: SERVICE.definition, implementation }];
      const server = await serveUnix({ socketPath: ownSocket, services });
      return {
        close: async () => {
          // kubelet closes its connection when the device list ends, and fails for good a pod whose call that cuts off.
          // Without a stream there is no kubelet that waits for an answer.
          const isQuiet = streams.open === 0 || (await allEnded(calls, clock));
          streams.endAll();
          await server.close(isQuiet ? CALL_GRACE_MS : 0);
        },
      };
    },
    register: (signal) =>
      registerDevicePlugin({
        ...{ kubeletSocket: kubelet.kubeletSocket, resource, endpoint, options: OPTIONS, signal },
      }),
    openStreams: () => streams.open,
    clock,
    logger,
    pollMs: options.pollMs ?? 10_000,
  });
  const watch = watchDirectory({
    path: kubelet.pluginDirectory,
    onChange: () => keeper.check(),
    onError: (error) => logger.warn({ err: error, resource }, "watching kubelet's directory failed, polling"),
  });
  const unsubscribe = devices.subscribe(() => streams.refresh());

  return {
    resource,
    get registered() {
      return keeper.registered;
    },
    get registrations() {
      return keeper.registrations;
    },
    close: async () => {
      unsubscribe();
      await watch.close();
      await keeper.close();
      // Calls that were cut off remove what they made; the next daemon counts on from what is left.
      await allEnded(calls, clock);
    },
  };
}

/**
 * The socket file of a resource's plugin: short, because the directory in front of it can be long, readable, and
 * unlike that of any other resource (`a-b/c` and `a/b-c` differ in the hash).
 */
export function pluginSocketName(resource: string): string {
  const readable = resource.replace(/^[^/]*\//, "").replace(/[^A-Za-z0-9-]/g, "-");
  const digest = createHash("sha256").update(resource).digest("hex").slice(0, 8);
  return `vhu-${readable.slice(0, 16)}-${digest}.sock`;
}

/** Waits until no call is running, for at most {@link CALL_GRACE_MS}. @returns whether none is running */
async function allEnded(calls: ReadonlySet<Promise<unknown>>, clock: Clock): Promise<boolean> {
  if (calls.size === 0) return true;
  const stop = new AbortController();
  let isLate = false;
  const late = clock.sleep(CALL_GRACE_MS, stop.signal).then(
    () => {
      isLate = true;
    },
    () => undefined,
  );
  while (calls.size > 0 && !isLate) {
    await Promise.race([late, Promise.allSettled(calls)]);
    // gRPC writes an answer a few steps after the handler has returned it.
    await setImmediate();
  }
  stop.abort();
  return calls.size === 0;
}

/** What kubelet's five calls work with; `calls` are those that are being answered. */
type HandlerOptions = StartDevicePluginOptions & {
  readonly streams: DeviceStreams;
  readonly calls: Set<Promise<unknown>>;
};

function handlers(options: HandlerOptions): UntypedServiceImplementation {
  return {
    GetDevicePluginOptions: unary(options, async () => OPTIONS),
    ListAndWatch: (stream: DeviceStream) => options.streams.serve(stream),
    GetPreferredAllocation: unary(options, async ({ container_requests }: PreferredAllocationRequest) => ({
      container_responses: container_requests.map((request) => ({
        deviceIDs: preferDevices(request, (id) => options.devices.lastUse(id)),
      })),
    })),
    Allocate: unary(options, (request: AllocateRequest, signal) => answerAllocate(request, options, signal)),
    PreStartContainer: unary(options, async () => ({})),
  };
}

/** A handler whose failures reach kubelet as a status with their text, and our log; its signal fires when kubelet is gone. */
function unary<Request, Answer>(
  { resource, calls, logger }: HandlerOptions,
  handle: (request: Request, signal: AbortSignal) => Promise<Answer>,
): handleUnaryCall<Request, Answer> {
  return async (call, respond) => {
    const gone = new AbortController();
    call.on("cancelled", () => gone.abort(callEnded(resource)));
    const handled = handle(call.request, gone.signal);
    calls.add(handled);
    try {
      respond(null, await handled);
    } catch (error) {
      logger.error({ err: error, resource }, "a call of kubelet failed");
      respond(toServiceError(error));
    } finally {
      calls.delete(handled);
    }
  };
}

function callEnded(resource: string): Failure {
  return new Failure({
    code: "kubelet-unavailable",
    what: "kubelet, or the end of its connection, ended the call before it was answered",
    where: `resource ${resource}`,
    fix: "nothing to do: what was made is removed, and kubelet allocates again for the next pod",
  });
}
