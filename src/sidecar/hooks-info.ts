import type { ServerUnaryCall, sendUnaryData, UntypedServiceImplementation } from "@grpc/grpc-js";
import { loadService } from "../grpc/load-service.ts";
import { dialUnix } from "../grpc/unix-client.ts";
import { HOOK_VERSIONS, type ServedService } from "./hook-callbacks.ts";

/** What virt-launcher is told of us. PreCloudInitIso is served but not announced: it would change nothing. */
const ANSWER = {
  name: "kube-vhostuser",
  hookPoints: [
    { name: "OnDefineDomain", priority: 0 },
    { name: "Shutdown", priority: 0 },
  ],
  versions: HOOK_VERSIONS,
};

const TRY_MS = 30_000;

const service = () => loadService("kubevirt/hooks-info.proto", "kubevirt.hooks.info.Info");

/** The Info service. It is a constant: virt-launcher gives it one second, and an error ends the VM's start. */
export function infoService(): ServedService {
  const implementation: UntypedServiceImplementation = {
    Info: (_call: ServerUnaryCall<object, object>, answer: sendUnaryData<object>) => answer(null, ANSWER),
  };
  return { definition: service().definition, implementation };
}

/** A first call of a process takes ten times as long as the next, and on a busy node more than virt-launcher's second. */
export async function tryInfo(socketPath: string): Promise<void> {
  const client = dialUnix(service(), socketPath);
  try {
    await client.call("Info", {}, TRY_MS);
  } finally {
    client.close();
  }
}
