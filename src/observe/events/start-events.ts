import type { DaemonConfig } from "../../config/schema.ts";
import { type ApiServerPlace, openKubeApiIfAny } from "../../kube-api/open-api.ts";
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
  if (!config.events.enabled) return undefined;
  const opened = openKubeApiIfAny("events", config.events, apiServer, (reason) =>
    logger.warn({ reason }, "Kubernetes events are off"),
  );
  if (opened === undefined) return undefined;
  const { url, api } = opened;
  const instance = podName ?? config.node;
  const poster = new EventPoster({ api, program: "daemon", instance, clock, logger });
  logger.info({ url }, "posting Kubernetes events");
  return {
    events: new NodeEvents({ ...options, node: config.node, post: (event) => poster.post(event) }),
    counts: poster.counts,
    close: () => poster.close(),
  };
}
