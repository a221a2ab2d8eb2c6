// The IPAM agent from top to bottom: every part in the order in which it starts.
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { serveCni } from "../cni/server.ts";
import { preferLessMemory } from "../command-line/memory-flags.ts";
import { takeOwnership } from "../files/owner-lock.ts";
import { type ApiServerPlace, openKubeApi } from "../kube-api/open-api.ts";
import type { Logger } from "../logging/logger.ts";
import { agentStatusSocket } from "../status/status-client.ts";
import { systemClock } from "../sync/clock.ts";
import { startAgent } from "./agent.ts";
import type { ClaimsMode } from "./agent-context.ts";
import { hasNetns, listNetns } from "./netns.ts";
import { observeAgent } from "./observe-agent.ts";
import { serveAgentStatus } from "./serve-status.ts";

/** From the command line and the environment. */
export interface ServeOptions {
  /** Name of the node. */
  readonly node: string;
  readonly stateDirectory: string;
  /** Release that runs. */
  readonly version: string;
  /** Socket of the executable; that of the status is beside it. */
  readonly socketPath: string;
  /** Where the node's network namespaces are, as this process sees them. */
  readonly netnsDirectory: string;
  /** Where metrics and the probe are served. */
  readonly listen: { readonly address: string; readonly port: number };
  readonly serviceAccountDirectory: string;
  readonly apiServer: ApiServerPlace | undefined;
  /** Without a path; in place of the environment's. */
  readonly apiServerUrl?: string | undefined;
  /** As {@link AgentContext.claims}. */
  readonly claims?: ClaimsMode;
  /** UID of the agent's own pod, where it runs in one. */
  readonly podUid: string | undefined;
  readonly logger: Logger;
  /** Called once it serves, with where the metrics are. */
  readonly onServing?: (url: string) => void;
  /** Ends it; the reason is the signal's name. */
  readonly signal: AbortSignal;
}

/** Changes with every boot of the node (random(4)). */
const BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id";

/** Starts the agent and serves until the signal fires. @throws what ended the start */
export async function serveAgent(options: ServeOptions): Promise<void> {
  const { node, stateDirectory, socketPath, listen, serviceAccountDirectory, logger, signal } = options;
  const clock = systemClock;
  await using undo = new AsyncDisposableStack();

  // 1. The journal, which one agent at a time owns.
  const owner = await takeOwnership(stateDirectory, clock, signal);
  undo.defer(() => owner.release());

  // 2. The agent itself, which answers from its journal before the API server does.
  const config = { serviceAccountDirectory, apiServer: options.apiServerUrl };
  const { url, api } = openKubeApi("--api-server", config, options.apiServer);
  undo.defer(() => api.close());
  const hasNetnsHere = (path: string) => hasNetns(path, options.netnsDirectory);
  const agent = await startAgent({
    ...{ node, api, stateDirectory, clock, logger, claims: options.claims, ownPodUid: options.podUid },
    bootId: readFileSync(BOOT_ID_FILE, "utf8").trim(),
    hasNetns: hasNetnsHere,
    listNetns: () => listNetns(options.netnsDirectory),
  });
  undo.defer(() => agent.close());

  // 3. Metrics and the probe.
  const observed = await observeAgent(agent, { listen, clock, logger });
  undo.defer(() => observed.server.close());

  // 4. What vhostuserctl asks; addresses are handed out without it too.
  const status = await serveAgentStatus({
    ...{ node, api, agent, clock, logger, hasNetns: hasNetnsHere, ownPodUid: options.podUid },
    ...{ version: options.version, startedAt: clock.now() },
    socketPath: agentStatusSocket(socketPath),
  }).catch((err: unknown) => void logger.error({ err }, "the agent's status cannot be served"));
  undo.defer(() => status?.close());

  // 5. The executable's socket.
  const server = await serveCni({ socketPath, answer: observed.handle, logger });
  undo.defer(() => server.close());
  logger.info({ url, socket: socketPath }, "serving addresses");
  options.onServing?.(observed.server.url);
  preferLessMemory();
  if (!signal.aborted) await once(signal, "abort");
  logger.info({ signal: signal.reason }, "stopping; pods keep their addresses");
}
