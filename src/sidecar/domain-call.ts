import type { ServerUnaryCall } from "@grpc/grpc-js";

/** What a call says of itself, beside its request. */
export interface DomainCall {
  /** Fires when the caller gave up. */
  readonly signal: AbortSignal;
  /** When the caller gives up, milliseconds since the epoch; `Infinity` where it set no deadline. */
  readonly deadline: number;
}

/** Of a gRPC call. */
export function domainCall<Request, Answer>(call: ServerUnaryCall<Request, Answer>): DomainCall {
  const gone = new AbortController();
  call.on("cancelled", () => gone.abort(new Error("virt-launcher gave up the call")));
  return { signal: gone.signal, deadline: Number(call.getDeadline()) };
}
