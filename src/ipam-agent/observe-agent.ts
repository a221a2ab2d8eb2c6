import type { Answer } from "../cni/answer.ts";
import { toFailure } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";
import { collectProcess } from "../observe/collect.ts";
import { IPAM_AGENT_METRICS } from "../observe/declared-ipam-metrics.ts";
import { PROCESS_METRICS } from "../observe/declared-metrics.ts";
import { type HttpServer, type Page, serveHttp, text } from "../observe/http-server.ts";
import { MetricSet } from "../observe/metrics.ts";
import { outcomeOf, timed } from "../observe/observed-calls.ts";
import type { Clock } from "../sync/clock.ts";
import { blocksOfSource, countsOfSource, sourceOfPool } from "./address-source.ts";
import type { Agent } from "./agent.ts";
import type { AgentRequest } from "./request.ts";

/** A pass comes every minute, and waits for the API server and the disk. */
const SILENCE_MS = 15 * 60_000;
const VERBS = new Set(["ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION"]);
const BLOCK_STATES = ["bound", "releasing", "lost"] as const;

/** Metrics and probes of an agent. */
export interface ObservedAgent {
  /** As {@link Agent.handle}, counted and timed. */
  readonly handle: Agent["handle"];
  readonly server: HttpServer;
}

/** Serves /metrics and /livez. @throws Failure `invalid-config` when the address cannot be used */
export async function observeAgent(
  agent: Agent,
  options: {
    readonly listen: { readonly address: string; readonly port: number };
    readonly clock: Clock;
    readonly logger: Logger;
  },
): Promise<ObservedAgent> {
  const { listen, clock, logger } = options;
  const metrics = new MetricSet({ ...IPAM_AGENT_METRICS, ...PROCESS_METRICS }, [
    () => collect(),
    () => collectProcess(metrics),
  ]);
  const collect = () => {
    const { state, leaks } = agent;
    const blocks = [...state.blocks.values()];
    const pools = [...state.pools].flatMap(([name, { mode, isDeleting }]) =>
      mode === "NodeBlocks" && !isDeleting ? [sourceOfPool(name, state)] : [],
    );
    const counts = pools
      .filter((source) => blocksOfSource(source, state).length > 0)
      .flatMap((source) =>
        Object.entries(countsOfSource(source, state, clock.monotonic())).map(
          ([what, count]) => [{ pool: source.pool ?? "", state: what }, count] as const,
        ),
      );
    metrics.replace("vhostuser_ipam_node_addresses", counts, (one) => one);
    metrics.replace("vhostuser_ipam_node_blocks", BLOCK_STATES, (one) => [
      { state: one },
      blocks.filter(({ entry }) => entry.state === one).length,
    ]);
    metrics.set("vhostuser_ipam_confirmed", {}, state.isConfirmed ? 1 : 0);
    metrics.set("vhostuser_ipam_suspects", {}, leaks.suspects);
    metrics.replace("vhostuser_ipam_collected_total", [leaks.collected], (count) => [{}, count]);
    for (const verb of VERBS) metrics.count("vhostuser_ipam_requests_total", { verb, code: "ok" }, 0);
  };
  const page = async (): Promise<Page> => ({
    ...{ status: 200, contentType: metrics.contentType },
    body: await metrics.text(),
  });
  const pages = new Map([
    ["/metrics", page],
    ["/livez", async () => livez(clock.monotonic() - agent.passes.lastMs)],
  ]);
  const server = await serveHttp({ ...listen, pages, logger });
  const handle = (request: AgentRequest, signal: AbortSignal): Promise<Answer> => {
    const { CNI_COMMAND: command = "" } = request.env;
    const verb = VERBS.has(command) ? command : "other";
    return timed(
      () => agent.handle(request, signal),
      (code, seconds) => {
        metrics.count("vhostuser_ipam_requests_total", { verb, code });
        metrics.observe(
          "vhostuser_ipam_request_duration_seconds",
          { verb, outcome: outcomeOf(code) },
          seconds,
        );
      },
      ({ failure }) => (failure === undefined ? "ok" : toFailure(failure).code),
    );
  };
  return { handle, server };
}

function livez(silentMs: number): Page {
  if (silentMs < SILENCE_MS) return text(200, "ok\n");
  return text(503, `the last pass over allocations and blocks was ${Math.round(silentMs / 1000)} s ago\n`);
}
