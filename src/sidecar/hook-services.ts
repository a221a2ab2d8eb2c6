import type { ServerUnaryCall, sendUnaryData, UntypedServiceImplementation } from "@grpc/grpc-js";
import { Failure } from "../failure/failure.ts";
import { loadService } from "../grpc/load-service.ts";
import { respondWithFailure } from "../grpc/status.ts";
import { dialUnix } from "../grpc/unix-client.ts";
import type { UnixServerOptions } from "../grpc/unix-server.ts";

// The gRPC services that virt-launcher calls: Info and Callbacks of a hook sidecar, and the domain hook of a
// structured plugin (KubeVirt 1.9). All of them end in HookCallbacks.

/** A gRPC service with its implementation. */
export type ServedService = UnixServerOptions["services"][number];

/** What every version of the services calls. */
export interface HookCallbacks {
  /** Failures become the caller's error. */
  defineDomain(request: DomainRequest, call: DomainCall): Promise<Uint8Array>;
  /** QEMU is gone: the answer goes out first, then the program ends. */
  shutdown(): void;
}

/** Bytes as virt-launcher sends them. */
export interface DomainRequest {
  readonly domainXML: Uint8Array;
  readonly vmi: Uint8Array;
  /** As the caller says; if it does not, read from the VMI's status. */
  readonly isMigrationTarget?: boolean;
}

/** What a call says besides its request. */
export interface DomainCall {
  /** Fires when the caller has given up. */
  readonly signal: AbortSignal;
  /** When the caller gives up, milliseconds since the epoch; `Infinity` where it set no deadline. */
  readonly deadline: number;
}

/** Versions of the callbacks, newest first; virt-launcher takes the newest that it knows. */
export const HOOK_VERSIONS = ["v1alpha3", "v1alpha2", "v1alpha1"] as const;

export type HookVersion = (typeof HOOK_VERSIONS)[number];

/** The answer of Info. PreCloudInitIso is served but not announced: it would change nothing. */
const INFO = {
  name: "kube-vhostuser",
  hookPoints: [
    { name: "OnDefineDomain", priority: 0 },
    { name: "Shutdown", priority: 0 },
  ],
  versions: HOOK_VERSIONS,
};

const TRY_MS = 30_000;

const loadInfo = () => loadService("kubevirt/hooks-info.proto", "kubevirt.hooks.info.Info");

/** The Info service. Its answer is a constant: virt-launcher waits one second, and an error ends the VM's start. */
export function infoService(): ServedService {
  const implementation: UntypedServiceImplementation = {
    Info: (_call: ServerUnaryCall<object, object>, answer: sendUnaryData<object>) => answer(null, INFO),
  };
  return { definition: loadInfo().definition, implementation };
}

/** Calls Info once: a process' first call takes ten times as long as the next, on a busy node more than that second. */
export async function tryInfo(socketPath: string): Promise<void> {
  const client = dialUnix(loadInfo(), socketPath);
  try {
    await client.call("Info", {}, TRY_MS);
  } finally {
    client.close();
  }
}

interface CloudInit {
  readonly cloudInitNoCloudSource: Uint8Array;
  readonly cloudInitData: Uint8Array;
}

/** `kubevirt.hooks.<version>.Callbacks`: a version has the first one, two or three of these methods. */
export function callbacksService(version: HookVersion, callbacks: HookCallbacks): ServedService {
  const implementation: UntypedServiceImplementation = {
    OnDefineDomain: definingDomain(callbacks, "domainXML", (request: DomainRequest) => request),
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
  const name = `kubevirt.hooks.${version}.Callbacks`;
  return { definition: loadService(`kubevirt/hooks-${version}.proto`, name).definition, implementation };
}

interface MutateDomainRequest {
  readonly domain_type: string;
  readonly domain: Uint8Array;
  readonly vmi: Uint8Array;
  readonly sidecar_context: { readonly invocation_context: string } | null;
}

/**
 * The domain hook of a structured plugin (KubeVirt 1.9 and later): OnDefineDomain under another name; its request
 * says whether this pod is the target of a migration.
 */
export function domainHookService(callbacks: Pick<HookCallbacks, "defineDomain">): ServedService {
  const read = ({ domain_type: type, domain, vmi, sidecar_context: context }: MutateDomainRequest) => {
    if (type !== "" && type !== "libvirt") throw unknownType(type);
    const isMigrationTarget = context?.invocation_context === "MigrationTarget";
    return { domainXML: domain, vmi, isMigrationTarget };
  };
  const { definition } = loadService(
    "kubevirt/domain-hook-v1alpha1.proto",
    "kubevirt.hooks.plugins.v1alpha1.DomainHookService",
  );
  return { definition, implementation: { MutateDomain: definingDomain(callbacks, "domain", read) } };
}

/** A method that defines a domain; its answer has it under `field`. */
function definingDomain<Request>(
  callbacks: Pick<HookCallbacks, "defineDomain">,
  field: string,
  read: (request: Request) => DomainRequest,
) {
  return async (call: ServerUnaryCall<Request, object>, answer: sendUnaryData<object>) => {
    try {
      const request = read(call.request);
      const cancelled = new AbortController();
      call.on("cancelled", () => cancelled.abort(new Error("virt-launcher cancelled the call")));
      const caller = { signal: cancelled.signal, deadline: Number(call.getDeadline()) };
      answer(null, { [field]: await callbacks.defineDomain(request, caller) });
    } catch (error) {
      respondWithFailure(answer, error);
    }
  };
}

function unknownType(type: string): Failure {
  return new Failure({
    code: "invalid-request",
    what: `the domain is of type ${JSON.stringify(type)}, and only "libvirt" is known`,
    where: "MutateDomain",
    fix: "use a release of the sidecar that names this KubeVirt in its table of versions",
  });
}
