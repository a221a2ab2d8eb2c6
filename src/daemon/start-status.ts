// Serves the node's status. A node serves its pods also without this page, so a failure is only logged.
import type { DaemonConfig } from "../config/schema.ts";
import type { Logger } from "../logging/logger.ts";
import type { HttpServer } from "../observe/http-server.ts";
import { serveStatusPage } from "../status/page/serve-page.ts";
import { readAddresses } from "../status/read-addresses.ts";
import { readNode } from "../status/read-node.ts";
import { readTrace } from "../status/read-trace.ts";
import { serveStatus } from "../status/serve-status.ts";
import { agentPlace } from "../status/status-client.ts";
import { type StatusSource, statusSocket } from "../status/status-source.ts";

/** Starts the socket of `vhostuserctl`, and the status page where it is enabled. */
export async function startStatus(
  config: Pick<DaemonConfig, "statusPage" | "statusSocket" | "cniSocket" | "recordsDirectory">,
  source: StatusSource,
  logger: Logger,
): Promise<{ close(): Promise<void> }> {
  const socketPath = statusSocket(config);
  const server = await serveStatus({ socketPath, source, logger }).catch((err: unknown) => {
    logger.error({ err }, "the node's status cannot be served");
    return undefined;
  });
  if (server !== undefined) logger.info({ url: server.url }, "serving the node's status");
  const page = await startStatusPage(config, source, logger);
  return {
    close: async () => {
      await Promise.all([server?.close(), page?.close()]);
    },
  };
}

/** Serves the status page where it is enabled. */
export async function startStatusPage(
  config: Pick<DaemonConfig, "statusPage" | "cniSocket" | "recordsDirectory">,
  source: StatusSource,
  logger: Logger,
): Promise<HttpServer | undefined> {
  const { enabled, address, port } = config.statusPage;
  if (!enabled) return undefined;
  try {
    const server = await serveStatusPage({
      ...{ address, port, logger },
      readNode: (signal) => readNode(source, signal),
      readAddresses: (signal) => readAddresses(agentPlace(config), signal),
      readTrace: ({ namespace, name: pod }, signal) => readTrace(source, { namespace, pod }, signal),
    });
    logger.info({ url: server.url }, "serving the status page");
    return server;
  } catch (err) {
    logger.error({ err }, "the status page cannot be served");
    return undefined;
  }
}
