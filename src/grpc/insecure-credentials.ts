import { type ChannelCredentials, credentials } from "@grpc/grpc-js";

/**
 * Insecure credentials whose connections end with their client. A client that is closed while its server is away leaves
 * grpc-js with a timer that connects all the same when the server is back, and nobody ever ends that connection; it
 * does tell the credentials that they are over, which is what stops it here.
 */
export function insecureCredentials(): ChannelCredentials {
  const plain = credentials.createInsecure();
  return Object.assign(Object.create(plain) as ChannelCredentials, {
    _createSecureConnector: (...args: Parameters<ChannelCredentials["_createSecureConnector"]>) => {
      const connector = plain._createSecureConnector(...args);
      let isOver = false;
      return {
        ...connector,
        waitForReady: async () => {
          if (isOver) throw new Error("the client is closed");
          await connector.waitForReady();
        },
        destroy: () => {
          isOver = true;
          connector.destroy();
        },
      };
    },
  });
}
