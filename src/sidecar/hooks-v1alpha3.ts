import type {
  ServerUnaryCall,
  ServiceDefinition,
  sendUnaryData,
  UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { loadService } from "../grpc/load-service.ts";
import { toServiceError } from "../grpc/status.ts";
import type { DomainRequest } from "./domain-hook.ts";

/** A gRPC service with what serves it. */
export interface ServedService {
  readonly definition: ServiceDefinition;
  readonly implementation: UntypedServiceImplementation;
}

/** What stands behind every version of the callbacks. */
export interface HookCallbacks {
  /** The signal fires when the caller gave up. Failures become the caller's error. */
  defineDomain(request: DomainRequest, signal: AbortSignal): Promise<Uint8Array>;
  /** QEMU is gone: the answer goes out first, then the program ends. */
  shutdown(): void;
}

interface CloudInit {
  readonly cloudInitNoCloudSource: Uint8Array;
  readonly cloudInitData: Uint8Array;
}

/** `kubevirt.hooks.v1alpha3.Callbacks` over {@link HookCallbacks}. */
export function callbacksV1alpha3(callbacks: HookCallbacks): ServedService {
  const implementation: UntypedServiceImplementation = {
    OnDefineDomain: async (
      call: ServerUnaryCall<DomainRequest, object>,
      answer: sendUnaryData<{ domainXML: Uint8Array }>,
    ) => {
      const gone = new AbortController();
      call.on("cancelled", () => gone.abort(new Error("virt-launcher gave up the call")));
      try {
        answer(null, { domainXML: await callbacks.defineDomain(call.request, gone.signal) });
      } catch (error) {
        answer(toServiceError(error));
      }
    },
    PreCloudInitIso: ({ request }: ServerUnaryCall<CloudInit, CloudInit>, answer: sendUnaryData<CloudInit>) =>
      answer(null, {
        cloudInitNoCloudSource: request.cloudInitNoCloudSource,
        cloudInitData: request.cloudInitData,
      }),
    Shutdown: (_call: ServerUnaryCall<object, object>, answer: sendUnaryData<object>) => {
      answer(null, {});
      callbacks.shutdown();
    },
  };
  return {
    definition: loadService("kubevirt/hooks-v1alpha3.proto", "kubevirt.hooks.v1alpha3.Callbacks").definition,
    implementation,
  };
}
