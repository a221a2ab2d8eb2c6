import type { ClientReadableStream, ServiceError } from "@grpc/grpc-js";
import { loadService } from "../../../src/grpc/load-service.ts";
import { dialUnix, type UnixClient } from "../../../src/grpc/unix-client.ts";

/** A device as a plugin listed it. */
export interface ListedDevice {
  readonly ID: string;
  readonly health: string;
  readonly topology: { readonly nodes: readonly { readonly ID: number }[] } | null;
}

/** A plugin's answer to Allocate, with the names of the wire. */
export interface WireAllocation {
  readonly envs: Readonly<Record<string, string>>;
  readonly mounts: readonly {
    readonly container_path: string;
    readonly host_path: string;
    readonly read_only: boolean;
  }[];
  readonly devices: readonly object[];
  readonly annotations: Readonly<Record<string, string>>;
  readonly cdi_devices: readonly object[];
}

/** A plugin's answer to GetDevicePluginOptions. */
export interface PluginOptions {
  readonly pre_start_required: boolean;
  readonly get_preferred_allocation_available: boolean;
}

/** gRPC-Go's default: a bigger message ends the stream. */
const RECEIVE_LIMIT_BYTES = 4 * 1024 * 1024;

/** Kubelet sets no deadline here; the stand-in does, so that no test hangs. */
const CALL_DEADLINE_MS = 60_000;

/** kubelet's end of one registered plugin. */
export class PluginClient {
  readonly #client: UnixClient;
  #stream: ClientReadableStream<{ readonly devices: readonly ListedDevice[] }> | undefined;

  private constructor(client: UnixClient) {
    this.#client = client;
  }

  /** Dials and waits until the plugin's socket takes the connection. */
  static async connect(socketPath: string, timeoutMs: number): Promise<PluginClient> {
    const service = loadService("kubelet/device-plugin-v1beta1.proto", "v1beta1.DevicePlugin");
    const client = dialUnix(service, socketPath, {
      "grpc.max_receive_message_length": RECEIVE_LIMIT_BYTES,
      "grpc.use_local_subchannel_pool": 1,
    });
    try {
      await new Promise<void>((resolve, reject) => {
        client.raw.waitForReady(Date.now() + timeoutMs, (error) => (error ? reject(error) : resolve()));
      });
    } catch (error) {
      client.close();
      throw new Error(`failed to dial device plugin: ${socketPath}`, { cause: error });
    }
    return new PluginClient(client);
  }

  options(): Promise<PluginOptions> {
    return this.#client.call("GetDevicePluginOptions", {}, CALL_DEADLINE_MS);
  }

  /** Reads device lists until the stream ends; resolves with the error's text, or undefined for a plain end. */
  listAndWatch(onList: (devices: readonly ListedDevice[]) => void): Promise<string | undefined> {
    const { raw } = this.#client;
    const method: unknown = Reflect.get(raw, "ListAndWatch");
    if (typeof method !== "function") throw new TypeError("no method ListAndWatch");
    const stream: ClientReadableStream<{ readonly devices: readonly ListedDevice[] }> = method.call(raw, {});
    this.#stream = stream;
    return new Promise((resolve) => {
      stream.on("data", ({ devices }) => onList(devices));
      stream.on("error", (error: ServiceError) => resolve(error.message));
      stream.on("end", () => resolve(undefined));
    });
  }

  /** One call for one container, with exactly one container request, as kubelet does. */
  async allocate(ids: readonly string[]): Promise<WireAllocation> {
    const { container_responses } = await this.#client.call<{
      readonly container_responses: readonly WireAllocation[];
    }>("Allocate", { container_requests: [{ devices_ids: ids }] }, CALL_DEADLINE_MS);
    const [answer] = container_responses;
    if (answer === undefined) throw new Error("no containers return in allocation response");
    return answer;
  }

  async preferred(available: readonly string[], must: readonly string[], size: number): Promise<string[]> {
    const { container_responses } = await this.#client.call<{
      readonly container_responses: readonly { readonly deviceIDs: readonly string[] }[];
    }>(
      "GetPreferredAllocation",
      {
        container_requests: [
          { available_deviceIDs: available, must_include_deviceIDs: must, allocation_size: size },
        ],
      },
      CALL_DEADLINE_MS,
    );
    return [...(container_responses[0]?.deviceIDs ?? [])];
  }

  async preStart(ids: readonly string[]): Promise<void> {
    await this.#client.call("PreStartContainer", { devices_ids: ids }, 30_000);
  }

  /** Cuts the connection and with it the stream. */
  close(): void {
    this.#stream?.cancel();
    this.#client.close();
  }
}
