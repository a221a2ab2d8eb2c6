import type { ChannelOptions, Client, ServiceError } from "@grpc/grpc-js";
import { insecureCredentials } from "./insecure-credentials.ts";
import type { LoadedService } from "./load-service.ts";

/** A client of one service on a unix socket. */
export interface UnixClient {
  /** Calls a unary method; rejects with the gRPC `ServiceError`. */
  call<Answer>(method: string, request: object, deadlineMs: number): Promise<Answer>;
  /** The grpc-js client, for streams. */
  readonly raw: Client;
  close(): void;
}

/** Dials lazily: the first call connects, and fails with UNAVAILABLE when nobody listens. */
export function dialUnix(
  service: LoadedService,
  socketPath: string,
  options: ChannelOptions = {},
): UnixClient {
  const raw = new service.Client(`unix://${socketPath}`, insecureCredentials(), options);
  return {
    raw,
    call: <Answer>(method: string, request: object, deadlineMs: number) =>
      new Promise<Answer>((resolve, reject) => {
        const unary = raw[method];
        if (typeof unary !== "function") throw new TypeError(`the service has no method ${method}`);
        unary.call(
          raw,
          request,
          { deadline: Date.now() + deadlineMs },
          (error: ServiceError | null, answer: Answer) => (error === null ? resolve(answer) : reject(error)),
        );
      }),
    close: () => raw.close(),
  };
}
