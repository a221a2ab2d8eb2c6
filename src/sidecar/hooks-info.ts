import type { ServerUnaryCall, sendUnaryData, UntypedServiceImplementation } from "@grpc/grpc-js";
import { loadService } from "../grpc/load-service.ts";
import type { ServedService } from "./hooks-v1alpha3.ts";

/** What virt-launcher is told of us. PreCloudInitIso is served but not announced: it would change nothing. */
const ANSWER = {
  name: "kube-vhostuser",
  hookPoints: [
    { name: "OnDefineDomain", priority: 0 },
    { name: "Shutdown", priority: 0 },
  ],
  versions: ["v1alpha3"],
};

/** The Info service. It is a constant: virt-launcher gives it one second, and an error ends the VM's start. */
export function infoService(): ServedService {
  const implementation: UntypedServiceImplementation = {
    Info: (_call: ServerUnaryCall<object, object>, answer: sendUnaryData<object>) => answer(null, ANSWER),
  };
  return {
    definition: loadService("kubevirt/hooks-info.proto", "kubevirt.hooks.info.Info").definition,
    implementation,
  };
}
