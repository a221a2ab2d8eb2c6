import type { handleUnaryCall, UntypedServiceImplementation } from "@grpc/grpc-js";
import { Failure } from "../failure/failure.ts";
import { respondWithFailure } from "../grpc/status.ts";
import type { DevicePluginOptions } from "../kubelet/registration.ts";
import type { Logger } from "../logging/logger.ts";
import type { Allocate, AllocationAnswer } from "./allocation-answer.ts";
import { type DeviceSource, findDevice } from "./device-source.ts";
import type { DeviceStream, DeviceStreams } from "./list-and-watch.ts";
import { preferDevices } from "./preferred-allocation.ts";

/** kubelet need not ask before a container starts, but is to ask which devices we prefer. */
export const DEVICE_PLUGIN_OPTIONS: DevicePluginOptions = {
  pre_start_required: false,
  get_preferred_allocation_available: true,
};

/** What the five calls of a device plugin lead to. */
export interface DevicePluginServiceOptions {
  readonly resource: string;
  readonly devices: DeviceSource;
  readonly streams: DeviceStreams;
  readonly allocate: Allocate;
  readonly logger: Logger;
}

interface WireAllocateRequest {
  readonly container_requests: readonly { readonly devices_ids: readonly string[] }[];
}

interface WirePreferenceRequest {
  readonly container_requests: readonly {
    readonly available_deviceIDs: readonly string[];
    readonly must_include_deviceIDs: readonly string[];
    readonly allocation_size: number;
  }[];
}

/** The gRPC handlers of one resource's plugin. */
export function devicePluginService(options: DevicePluginServiceOptions): UntypedServiceImplementation {
  return {
    GetDevicePluginOptions: unary(options, async () => DEVICE_PLUGIN_OPTIONS),
    ListAndWatch: (stream: DeviceStream) => options.streams.serve(stream),
    GetPreferredAllocation: unary(options, async ({ container_requests }: WirePreferenceRequest) => ({
      container_responses: container_requests.map((request) => ({
        deviceIDs: preferDevices(
          {
            available: request.available_deviceIDs,
            mustInclude: request.must_include_deviceIDs,
            size: request.allocation_size,
          },
          (id) => findDevice(options.devices, id),
        ),
      })),
    })),
    Allocate: unary(options, (request: WireAllocateRequest, signal) => allocateAll(request, options, signal)),
    PreStartContainer: unary(options, async () => ({})),
  };
}

async function allocateAll(
  request: WireAllocateRequest,
  options: DevicePluginServiceOptions,
  signal: AbortSignal,
): Promise<{ readonly container_responses: readonly object[] }> {
  // All are checked before the first is allocated, so that a bad request leaves nothing behind.
  for (const { devices_ids } of request.container_requests) checkDevices(devices_ids, options);
  const container_responses: object[] = [];
  for (const { devices_ids } of request.container_requests) {
    container_responses.push(toWire(await options.allocate(devices_ids, signal)));
  }
  return { container_responses };
}

function checkDevices(ids: readonly string[], options: DevicePluginServiceOptions): void {
  const unknown = ids.filter((id) => findDevice(options.devices, id) === undefined);
  const problem =
    ids.length === 0
      ? "no device at all"
      : unknown.length > 0
        ? `devices that are not on this node: ${unknown.map((id) => JSON.stringify(id)).join(", ")}`
        : new Set(ids).size < ids.length
          ? `one device twice: ${ids.map((id) => JSON.stringify(id)).join(", ")}`
          : undefined;
  if (problem === undefined) return;
  throw new Failure({
    code: "invalid-request",
    what: `Allocate names ${problem}`,
    where: `resource ${options.resource}`,
    fix: "delete the pod; when the pool has shrunk, kubelet knows the new list by now",
  });
}

function toWire(answer: AllocationAnswer): object {
  return {
    envs: answer.envs,
    mounts: answer.mounts.map(({ containerPath, hostPath, readOnly }) => ({
      container_path: containerPath,
      host_path: hostPath,
      read_only: readOnly,
    })),
    annotations: answer.annotations,
  };
}

/** A handler whose failures reach kubelet as a status with their text, and our log; its signal fires when kubelet is gone. */
function unary<Request, Answer>(
  options: DevicePluginServiceOptions,
  handle: (request: Request, signal: AbortSignal) => Promise<Answer>,
): handleUnaryCall<Request, Answer> {
  return (call, respond) => {
    const gone = new AbortController();
    call.on("cancelled", () => gone.abort(callEnded(options.resource)));
    handle(call.request, gone.signal).then(
      (answer) => respond(null, answer),
      (error: unknown) => {
        options.logger.error({ err: error, resource: options.resource }, "a call of kubelet failed");
        respondWithFailure(respond, error);
      },
    );
  };
}

function callEnded(resource: string): Failure {
  return new Failure({
    code: "kubelet-unavailable",
    what: "kubelet, or the end of its connection, ended the call before it was answered",
    where: `resource ${resource}`,
    fix: "nothing to do: what was made is taken back, and kubelet allocates anew for the pod that comes instead",
  });
}
