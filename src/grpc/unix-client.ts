import {
  type ChannelCredentials,
  type ChannelOptions,
  type Client,
  credentials,
  type ServiceError,
} from "@grpc/grpc-js";
import type { LoadedService } from "./load-service.ts";

/** A client of one service on a unix socket. */
export interface UnixClient {
  /** Calls a unary method; rejects with the gRPC `ServiceError`. */
  call<Answer>(method: string, request: object, deadlineMs: number): Promise<Answer>;
  /** The grpc-js client, for streams. */
  readonly raw: Client;
  close(): void;
}

/** Dials lazily: the first call connects, and fails with UNAVAILABLE when nothing listens. */
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

/**
 * Insecure credentials whose connections end with their client. grpc-js leaves a timer behind when a client is closed
 * while its server is down, and it would connect when the server is back; that goes through `waitForReady`.
 */
function insecureCredentials(): ChannelCredentials {
  const plain = credentials.createInsecure();
  return Object.assign(Object.create(plain) as ChannelCredentials, {
    _createSecureConnector: (...args: Parameters<ChannelCredentials["_createSecureConnector"]>) => {
      const connector = plain._createSecureConnector(...args);
      let isClosed = false;
      return {
        ...connector,
        waitForReady: async () => {
          if (isClosed) throw new Error("the client is closed");
          await connector.waitForReady();
        },
        destroy: () => {
          isClosed = true;
          connector.destroy();
        },
      };
    },
  });
}
