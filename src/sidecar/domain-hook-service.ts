import type { ServerUnaryCall, sendUnaryData, UntypedServiceImplementation } from "@grpc/grpc-js";
import { Failure } from "../failure/failure.ts";
import { loadService } from "../grpc/load-service.ts";
import { respondWithFailure } from "../grpc/status.ts";
import { domainCall } from "./domain-call.ts";
import type { HookCallbacks, ServedService } from "./hook-callbacks.ts";

interface MutateDomainRequest {
  readonly domain_type: string;
  readonly domain: Uint8Array;
  readonly vmi: Uint8Array;
  readonly sidecar_context: { readonly invocation_context: string } | null;
}

/**
 * The domain hook of a structured plugin (KubeVirt 1.9 and later): OnDefineDomain under another name, and it is told
 * whether this pod is the target of a migration.
 */
export function domainHookService(callbacks: Pick<HookCallbacks, "defineDomain">): ServedService {
  const implementation: UntypedServiceImplementation = {
    MutateDomain: async (
      call: ServerUnaryCall<MutateDomainRequest, object>,
      answer: sendUnaryData<{ domain: Uint8Array }>,
    ) => {
      const { domain_type: type, domain, vmi, sidecar_context: context } = call.request;
      try {
        if (type !== "" && type !== "libvirt") throw unknownType(type);
        const isMigrationTarget = context?.invocation_context === "MigrationTarget";
        const request = { domainXML: domain, vmi, isMigrationTarget };
        answer(null, { domain: await callbacks.defineDomain(request, domainCall(call)) });
      } catch (error) {
        respondWithFailure(answer, error);
      }
    },
  };
  const { definition } = loadService(
    "kubevirt/domain-hook-v1alpha1.proto",
    "kubevirt.hooks.plugins.v1alpha1.DomainHookService",
  );
  return { definition, implementation };
}

function unknownType(type: string): Failure {
  return new Failure({
    code: "invalid-request",
    what: `the domain is of type ${JSON.stringify(type)}, and only "libvirt" is known`,
    where: "MutateDomain",
    fix: "use a release of the sidecar that names this KubeVirt in its table of versions",
  });
}
