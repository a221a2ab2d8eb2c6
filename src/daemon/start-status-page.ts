import type { DaemonConfig } from "../config/schema.ts";
import type { Logger } from "../logging/logger.ts";
import type { HttpServer } from "../observe/http-server.ts";
import { serveStatusPage } from "../status/page/serve-page.ts";
import { readNode, readUnattached } from "../status/read-node.ts";
import { readTrace } from "../status/read-trace.ts";
import type { StatusSource } from "../status/status-source.ts";

/** Serves the status page where it is asked for. A node serves its pods also while nobody can look at it. */
export async function startStatusPage(
  { enabled, address, port }: DaemonConfig["statusPage"],
  source: StatusSource,
  logger: Logger,
): Promise<HttpServer | undefined> {
  if (!enabled) return undefined;
  try {
    const server = await serveStatusPage({
      ...{ address, port, logger },
      readNode: async (signal) => {
        const status = await readNode(source, signal);
        // Else a pod that never starts would be the one that is not shown.
        const unattached = await readUnattached(source, status);
        return { ...status, interfaces: [...status.interfaces, ...unattached] };
      },
      readTrace: ({ namespace, name: pod }, signal) => readTrace(source, { namespace, pod }, signal),
    });
    logger.info({ url: server.url }, "serving the status page");
    return server;
  } catch (err) {
    logger.error({ err }, "the status page cannot be served");
    return undefined;
  }
}
