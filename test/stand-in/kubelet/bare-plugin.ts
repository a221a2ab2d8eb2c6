import { join } from "node:path";
import type { handleUnaryCall, ServerWritableStream } from "@grpc/grpc-js";
import { loadService } from "../../../src/grpc/load-service.ts";
import { dialUnix } from "../../../src/grpc/unix-client.ts";
import { serveUnix, type UnixServer } from "../../../src/grpc/unix-server.ts";
import type { KubeletPaths } from "../../../src/kubelet/paths.ts";

const PROTO = "kubelet/device-plugin-v1beta1.proto";

/** A device plugin that does only what a test tells it. */
export class BarePlugin {
  readonly streams: ServerWritableStream<object, object>[] = [];
  answer: object = {};
  options: object = {};
  preferred: readonly string[] = [];
  devices: readonly object[];

  constructor(...ids: readonly string[]) {
    this.devices = ids.map((ID) => ({ ID, health: "Healthy" }));
  }

  /** Serves on a socket in kubelet's plugin directory, without registering. */
  async listen(paths: KubeletPaths, endpoint = "a.sock"): Promise<UnixServer> {
    const unary: (answer: () => object) => handleUnaryCall<object, object> = (answer) => (_call, respond) =>
      respond(null, answer());
    return serveUnix({
      socketPath: join(paths.pluginDirectory, endpoint),
      services: [
        {
          definition: loadService(PROTO, "v1beta1.DevicePlugin").definition,
          implementation: {
            GetDevicePluginOptions: unary(() => this.options),
            ListAndWatch: (stream: ServerWritableStream<object, object>) => {
              this.streams.push(stream);
              stream.write({ devices: this.devices });
            },
            GetPreferredAllocation: unary(() => ({ container_responses: [{ deviceIDs: this.preferred }] })),
            Allocate: unary(() => ({ container_responses: [this.answer] })),
            PreStartContainer: unary(() => ({})),
          },
        },
      ],
    });
  }
}

/** One Register call, as it is told. */
export async function register(
  paths: KubeletPaths,
  request: { readonly resource?: string; readonly endpoint?: string; readonly version?: string } = {},
): Promise<void> {
  const client = dialUnix(loadService(PROTO, "v1beta1.Registration"), paths.kubeletSocket, {
    "grpc.use_local_subchannel_pool": 1,
  });
  const { resource = "vhostuser/sockets", endpoint = "a.sock", version = "v1beta1" } = request;
  await client
    .call("Register", { version, endpoint, resource_name: resource }, 10_000)
    .finally(() => client.close());
}
