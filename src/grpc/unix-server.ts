import { chmod, rm } from "node:fs/promises";
import {
  Server,
  ServerCredentials,
  type ServiceDefinition,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";

/** What a server on a unix socket serves. */
export interface UnixServerOptions {
  readonly socketPath: string;
  readonly services: readonly {
    readonly definition: ServiceDefinition;
    readonly implementation: UntypedServiceImplementation;
  }[];
  /** File mode of the socket; default 0600. */
  readonly mode?: number;
}

/** A running server. */
export interface UnixServer {
  readonly socketPath: string;
  /** Lets running calls end for `graceMs`, then ends them; streams such as ListAndWatch never end alone. */
  close(graceMs?: number): Promise<void>;
}

/** Serves on a unix socket; a socket file that a dead process left is removed first. */
export async function serveUnix(options: UnixServerOptions): Promise<UnixServer> {
  await rm(options.socketPath, { force: true });
  // With channelz: without it forceShutdown ends no connection (grpc-js 1.14), and a call that hangs holds up close().
  const server = new Server();
  for (const { definition, implementation } of options.services)
    server.addService(definition, implementation);
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix://${options.socketPath}`, ServerCredentials.createInsecure(), (error) =>
      error === null ? resolve() : reject(error),
    );
  });
  try {
    await chmod(options.socketPath, options.mode ?? 0o600);
  } catch (error) {
    // Kubelet wipes its directory when it starts, perhaps just now.
    server.forceShutdown();
    throw error;
  }
  return {
    socketPath: options.socketPath,
    close: (graceMs = 0) =>
      new Promise((resolve) => {
        const timer = setTimeout(() => server.forceShutdown(), graceMs);
        server.tryShutdown(() => {
          clearTimeout(timer);
          resolve();
        });
      }),
  };
}
