// A device plugin whose Allocate does nothing: what a call through grpc-js takes at least. `node bare-plugin.ts SOCKET`
import type { sendUnaryData } from "@grpc/grpc-js";
import { preferLessMemory } from "../../src/command-line/memory-flags.ts";
import { loadService } from "../../src/grpc/load-service.ts";
import { serveUnix } from "../../src/grpc/unix-server.ts";

const [socketPath = ""] = process.argv.slice(2);
const { definition } = loadService("kubelet/device-plugin-v1beta1.proto", "v1beta1.DevicePlugin");
const answerWith = (message: object) => (_call: unknown, answer: sendUnaryData<object>) =>
  answer(null, message);
const path = "/var/run/vhostuser/sockets";
const envs = { VHOSTUSER_SOCKETS_DIRECTORY: path, VHOSTUSER_SOCKETS_DEVICES: "sockets-00000" };
const mounts = [{ container_path: path, host_path: "/var/run/vhostuser/0123456789abcdef", read_only: false }];
const implementation = {
  GetDevicePluginOptions: answerWith({}),
  Allocate: answerWith({ container_responses: [{ envs, mounts }] }),
};
await serveUnix({ socketPath, services: [{ definition, implementation }] });
preferLessMemory();
