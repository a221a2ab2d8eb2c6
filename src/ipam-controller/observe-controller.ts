import type { Logger } from "../logging/logger.ts";
import { collectProcess, EVENT_OUTCOMES } from "../observe/collect.ts";
import { IPAM_CONTROLLER_METRICS } from "../observe/declared-ipam-metrics.ts";
import { PROCESS_METRICS } from "../observe/declared-metrics.ts";
import type { EventCounts } from "../observe/events/event-poster.ts";
import { type HttpServer, type Page, serveHttp, text } from "../observe/http-server.ts";
import { MetricSet } from "../observe/metrics.ts";
import { probe } from "../observe/probes.ts";
import type { IpamController } from "./controller.ts";

/** What is shown of a controller. */
export interface ObservedController {
  /** The one that leads now; undefined while another replica does. */
  readonly leading: IpamController | undefined;
  readonly events: Readonly<EventCounts>;
  /** Why the API server cannot be used; undefined where it answers. */
  readonly apiProblem: string | undefined;
}

const SHOWN = { ...IPAM_CONTROLLER_METRICS, ...PROCESS_METRICS };
const CONDITIONS = ["Ready", "NearlyFull", "Exhausted", "Overlapping", "Imported"] as const;
const OWNERS = ["Node", "Shared", "Foreign"] as const;
const STATES = ["Bound", "Quarantined", "Releasing"] as const;

/** Serves /metrics, /livez and /readyz. @throws Failure `invalid-config` when the address cannot be used */
export function observeController(
  observed: () => ObservedController,
  {
    listen,
    logger,
  }: { readonly listen: { readonly address: string; readonly port: number }; readonly logger: Logger },
): Promise<HttpServer> {
  const metrics: MetricSet<typeof SHOWN> = new MetricSet(SHOWN, [
    () => collect(observed(), metrics),
    () => collectProcess(metrics),
  ]);
  const page = async (): Promise<Page> => ({
    ...{ status: 200, contentType: metrics.contentType },
    body: await metrics.text(),
  });
  // A replica that waits for the Lease is ready, too.
  const ready = () => probe([{ name: "API server", problem: () => observed().apiProblem }]);
  const pages = new Map([
    ["/metrics", page],
    ["/livez", async () => text(200, "ok\n")],
    ["/readyz", ready],
  ]);
  return serveHttp({ ...listen, pages, logger });
}

/** Only the replica that leads knows the cluster: the others have no series of it. */
function collect(
  { leading, events }: ObservedController,
  metrics: Pick<MetricSet<typeof IPAM_CONTROLLER_METRICS>, "set" | "replace">,
): void {
  const pools = leading?.pools ?? [];
  metrics.replace("vhostuser_ipam_pool_addresses", pools, ({ name: pool, total }) => [
    { pool },
    Number(total),
  ]);
  metrics.replace("vhostuser_ipam_pool_addresses_in_blocks", pools, ({ name: pool, inBlocks }) => [
    { pool },
    inBlocks,
  ]);
  metrics.replace("vhostuser_ipam_pool_addresses_used", pools, ({ name: pool, used }) => [{ pool }, used]);
  metrics.replace("vhostuser_ipam_pool_addresses_free", pools, ({ name: pool, total, used }) => [
    { pool },
    Number(total) - used,
  ]);
  const conditions = pools.flatMap(({ name: pool, conditions: all }) =>
    CONDITIONS.map((condition) => ({
      labels: { pool, condition },
      isTrue: all.some(({ type, status }) => type === condition && status === "True"),
    })),
  );
  metrics.replace("vhostuser_ipam_pool_condition", conditions, ({ labels, isTrue }) => [
    labels,
    isTrue ? 1 : 0,
  ]);
  const imports = pools.flatMap(({ name: pool, conditions: all }) =>
    all.flatMap(({ type, reason }) => (type === "Imported" ? [{ pool, reason }] : [])),
  );
  metrics.replace("vhostuser_ipam_pool_handed_out_twice", imports, ({ pool, reason }) => [
    { pool },
    reason === "HandedOutTwice" ? 1 : 0,
  ]);
  const views = leading === undefined ? [] : [leading.view];
  const blocks = views.flatMap(({ blocks: { entries } }) => {
    const all = [...entries.values()];
    return OWNERS.flatMap((owner) =>
      STATES.map((state) => {
        const count = all.filter((one) => one?.owner.kind === owner && one.state === state).length;
        return { labels: { owner, state }, count };
      }),
    );
  });
  metrics.replace("vhostuser_ipam_blocks", blocks, ({ labels, count }) => [labels, count]);
  metrics.replace("vhostuser_ipam_allocations", views, ({ allocations }) => [{}, allocations.entries.size]);
  const unreadable = views.map(
    ({ blocks: { entries: found }, spaces }) =>
      [...found.values(), ...spaces.entries.values()].filter((one) => one === undefined).length,
  );
  metrics.replace("vhostuser_ipam_unreadable_objects", unreadable, (count) => [{}, count]);
  const counts = leading === undefined ? [] : [leading.counts];
  metrics.replace("vhostuser_ipam_blocks_quarantined_total", counts, (one) => [{}, one.blocksQuarantined]);
  metrics.replace("vhostuser_ipam_blocks_deleted_total", counts, (one) => [{}, one.blocksDeleted]);
  metrics.replace("vhostuser_ipam_allocations_freed_total", counts, (one) => [{}, one.allocationsFreed]);
  const states = leading?.claims?.states;
  const claims = states === undefined ? [] : (["ready", "pending", "refused"] as const);
  metrics.replace("vhostuser_ipam_claims", claims, (state) => [{ state }, states?.[state] ?? 0]);
  metrics.replace("vhostuser_ipam_claims_published_total", states === undefined ? [] : counts, (one) => [
    {},
    one.claimsPublished,
  ]);
  const provider = leading?.clusterApi?.provider;
  const clusterApi = provider === undefined ? [] : Object.entries(provider.states);
  metrics.replace("vhostuser_ipam_cluster_api_claims", clusterApi, ([state, count]) => [{ state }, count]);
  const isManaging = leading?.claims?.manager?.isManaging;
  metrics.replace("vhostuser_ipam_claims_managed", isManaging === undefined ? [] : [isManaging], (one) => [
    {},
    one ? 1 : 0,
  ]);
  const passes = counts.flatMap(({ passesOk, passesFailed }) => [
    { outcome: "ok", count: passesOk },
    { outcome: "failed", count: passesFailed },
  ]);
  metrics.replace("vhostuser_ipam_passes_total", passes, ({ outcome, count }) => [{ outcome }, count]);
  const lastPass = leading === undefined ? [] : [leading.lastPassAt ?? 0];
  metrics.replace("vhostuser_ipam_last_pass_ok_timestamp_seconds", lastPass, (ms) => [{}, ms / 1000]);
  metrics.set("vhostuser_ipam_controller_leading", {}, leading === undefined ? 0 : 1);
  metrics.replace("vhostuser_events_total", EVENT_OUTCOMES, (outcome) => [{ outcome }, events[outcome]]);
}
