import type {
  ServerUnaryCall,
  ServiceDefinition,
  sendUnaryData,
  UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { loadService } from "../grpc/load-service.ts";
import { respondWithFailure } from "../grpc/status.ts";
import { type DomainCall, domainCall } from "./domain-call.ts";
import type { DomainRequest } from "./domain-hook.ts";

/** A gRPC service with what serves it. */
export interface ServedService {
  readonly definition: ServiceDefinition;
  readonly implementation: UntypedServiceImplementation;
}

/** What stands behind every version of the callbacks, and behind the domain hook of structured plugins. */
export interface HookCallbacks {
  /** Failures become the caller's error. */
  defineDomain(request: DomainRequest, call: DomainCall): Promise<Uint8Array>;
  /** QEMU is gone: the answer goes out first, then the program ends. */
  shutdown(): void;
}

interface CloudInit {
  readonly cloudInitNoCloudSource: Uint8Array;
  readonly cloudInitData: Uint8Array;
}

/** Versions of the callbacks, newest first; virt-launcher takes the newest that it knows. */
export const HOOK_VERSIONS = ["v1alpha3", "v1alpha2", "v1alpha1"] as const;

export type HookVersion = (typeof HOOK_VERSIONS)[number];

/** `kubevirt.hooks.<version>.Callbacks`: a version has the first one, two or three of these methods. */
export function callbacksService(version: HookVersion, callbacks: HookCallbacks): ServedService {
  const implementation: UntypedServiceImplementation = {
    OnDefineDomain: async (
      call: ServerUnaryCall<DomainRequest, object>,
      answer: sendUnaryData<{ domainXML: Uint8Array }>,
    ) => {
      try {
        answer(null, { domainXML: await callbacks.defineDomain(call.request, domainCall(call)) });
      } catch (error) {
        respondWithFailure(answer, error);
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
  const { definition } = loadService(
    `kubevirt/hooks-${version}.proto`,
    `kubevirt.hooks.${version}.Callbacks`,
  );
  return { definition, implementation };
}
