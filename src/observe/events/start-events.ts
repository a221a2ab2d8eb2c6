import { accessSync, constants } from "node:fs";
import { join } from "node:path";
import type { DaemonConfig } from "../../config/schema.ts";
import { describeThrown } from "../../failure/failure.ts";
import { KubeApi } from "../../kube-api/client.ts";
import type { Logger } from "../../logging/logger.ts";
import type { Clock } from "../../sync/clock.ts";
import { type EventCounts, EventPoster } from "./event-poster.ts";
import { NodeEvents, type NodeEventsOptions } from "./node-events.ts";

/** What events are started with. */
export interface StartEventsOptions extends Omit<NodeEventsOptions, "post" | "node"> {
  readonly config: Pick<DaemonConfig, "events" | "node">;
  /** Where the environment says that the API server is (`KUBERNETES_SERVICE_HOST` and its port). */
  readonly apiServer: ApiServerPlace | undefined;
  /** Name of the daemon's pod, where it runs in one. */
  readonly podName: string | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Host and port as kubelet sets them in the environment. */
export interface ApiServerPlace {
  readonly host: string;
  readonly port: string;
}

/** Events that are being posted. */
export interface RunningEvents {
  readonly events: NodeEvents;
  readonly counts: Readonly<EventCounts>;
  close(): Promise<void>;
}

/**
 * Starts to post events where the configuration wants them. Without an API server or a token it logs that and returns
 * undefined: a node serves its pods without events as well.
 */
export function startEvents(options: StartEventsOptions): RunningEvents | undefined {
  const { config, apiServer, podName, clock, logger } = options;
  const { enabled, serviceAccountDirectory } = config.events;
  if (!enabled) return undefined;
  const url = config.events.apiServer ?? urlOf(apiServer);
  try {
    if (url === undefined)
      throw new Error("neither KUBERNETES_SERVICE_HOST nor events.apiServer names an API server");
    accessSync(join(serviceAccountDirectory, "token"), constants.R_OK);
  } catch (error) {
    logger.warn({ reason: describeThrown(error) }, "Kubernetes events are off");
    return undefined;
  }
  const api = new KubeApi({ url, serviceAccountDirectory });
  const poster = new EventPoster({ api, instance: podName ?? config.node, clock, logger });
  logger.info({ url }, "posting Kubernetes events");
  return {
    events: new NodeEvents({ ...options, node: config.node, post: (event) => poster.post(event) }),
    counts: poster.counts,
    close: () => poster.close(),
  };
}

function urlOf(place: ApiServerPlace | undefined): string | undefined {
  if (place === undefined) return undefined;
  const host = place.host.includes(":") ? `[${place.host}]` : place.host;
  return `https://${host}:${place.port}`;
}
