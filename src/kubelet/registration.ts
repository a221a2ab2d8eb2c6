import { describeThrown, Failure } from "../failure/failure.ts";
import { loadService } from "../grpc/load-service.ts";
import { dialUnix } from "../grpc/unix-client.ts";
import { orAborted } from "../sync/deadlines.ts";

/** The only version of the device plugin API that kubelet accepts. */
const DEVICE_PLUGIN_VERSION = "v1beta1";

const REGISTRATION = loadService("kubelet/device-plugin-v1beta1.proto", "v1beta1.Registration");

/** kubelet waits 10 s for the plugin's socket inside Register; this is longer, so that its own error arrives. */
const REGISTER_DEADLINE_MS = 15_000;

/** What a plugin says about itself to kubelet, in Register and in GetDevicePluginOptions. */
export interface DevicePluginOptions {
  readonly pre_start_required: boolean;
  readonly get_preferred_allocation_available: boolean;
}

/** One registration. */
export interface RegistrationRequest {
  readonly kubeletSocket: string;
  readonly resource: string;
  /** Name of the plugin's socket file in the plugin directory. */
  readonly endpoint: string;
  readonly options: DevicePluginOptions;
  readonly signal: AbortSignal;
}

/**
 * Announces a plugin to kubelet. kubelet calls GetDevicePluginOptions on the plugin's socket before it answers,
 * so the plugin must be serving already, in an event loop that is not blocked.
 * @throws Failure kubelet-unavailable
 */
export async function registerDevicePlugin(request: RegistrationRequest): Promise<void> {
  // A pool of its own: grpc-js would otherwise lend this call the back-off of an earlier failed attempt, up to
  // two minutes long, and kubelet would see no devices for as long after its restart.
  const client = dialUnix(REGISTRATION, request.kubeletSocket, { "grpc.use_local_subchannel_pool": 1 });
  try {
    const message = {
      version: DEVICE_PLUGIN_VERSION,
      endpoint: request.endpoint,
      resource_name: request.resource,
      options: request.options,
    };
    await orAborted(client.call("Register", message, REGISTER_DEADLINE_MS), request.signal);
  } catch (error) {
    throw new Failure({
      code: "kubelet-unavailable",
      what: `kubelet did not register ${request.resource}: ${describeThrown(error)}`,
      where: request.kubeletSocket,
      fix: "nothing to do when kubelet is starting, the registration is repeated; else see kubelet's log",
      cause: error,
    });
  } finally {
    client.close();
  }
}
