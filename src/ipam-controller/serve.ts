// The IPAM controller from top to bottom: every part in the order in which it starts.
import { preferLessMemory } from "../command-line/memory-flags.ts";
import { describeThrown } from "../failure/failure.ts";
import { ApiFailure, type ApiProblem } from "../kube-api/api-failure.ts";
import type { KubeApi } from "../kube-api/client.ts";
import { Lease } from "../kube-api/lease.ts";
import { type ApiServerPlace, openKubeApi } from "../kube-api/open-api.ts";
import type { Logger } from "../logging/logger.ts";
import { EventPoster } from "../observe/events/event-poster.ts";
import type { Clock } from "../sync/clock.ts";
import { IpamController } from "./controller.ts";
import { observeController } from "./observe-controller.ts";

/** From the command line and the environment. */
export interface ServeOptions {
  /** Namespace of the Lease, which is that of the program's pod. */
  readonly namespace: string;
  /** Unique among the replicas. */
  readonly identity: string;
  /** Where metrics and probes are served. */
  readonly listen: { readonly address: string; readonly port: number };
  readonly serviceAccountDirectory: string;
  readonly apiServer: ApiServerPlace | undefined;
  /** Without a path; in place of the environment's. */
  readonly apiServerUrl?: string | undefined;
  /** Whether it serves IPAMClaims; default false. */
  readonly hasClaims?: boolean;
  /** Whether it serves the IPAddressClaims of Cluster API; default false. */
  readonly hasClusterApi?: boolean;
  /** Whether it makes the claims of VMs, too; default false. */
  readonly managesClaims?: boolean;
  /** Namespace of whereabouts' objects; undefined where nothing is imported from it. */
  readonly whereabouts?: string | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called once it serves, with where the metrics are. */
  readonly onServing?: (url: string) => void;
  /** Ends it; the reason is the signal's name. */
  readonly signal: AbortSignal;
}

const LEASE_NAME = "kube-vhostuser-ipam-controller";
/** An API server that has not answered for so long cannot be used: the Lease is asked for every two seconds. */
const SILENCE_MS = 30_000;
/** Refusals that show that it can be used. */
const ANSWERS: readonly ApiProblem[] = ["not-found", "conflict", "exists"];

/** Waits for the Lease and works while it is held, until the signal fires. @throws what ended the start */
export async function serveController(options: ServeOptions): Promise<void> {
  const { namespace, identity, listen, serviceAccountDirectory, clock, logger, signal } = options;
  await using undo = new AsyncDisposableStack();

  // 1. The API server.
  const config = { serviceAccountDirectory, apiServer: options.apiServerUrl };
  const { url, api } = openKubeApi("--api-server", config, options.apiServer);
  undo.defer(() => api.close());
  const watched = new AnswerWatch(api, clock, logger);
  const poster = new EventPoster({ api, program: "ipam-controller", instance: identity, clock, logger });
  undo.defer(() => poster.close());

  // 2. Metrics and probes.
  let leading: IpamController | undefined;
  const server = await observeController(
    () => ({ leading, events: poster.counts, apiProblem: watched.problem }),
    { listen, logger },
  );
  undo.defer(() => server.close());
  logger.info({ url: server.url }, "serving metrics and probes");
  options.onServing?.(server.url);
  logger.info({ url }, "waiting for the Lease");
  preferLessMemory();

  // 3. The work, while the Lease is held.
  const lead = async (ended: AbortSignal): Promise<void> => {
    logger.info("leading");
    const { hasClaims = false, managesClaims = false, hasClusterApi = false } = options;
    leading = new IpamController({
      ...{ api, clock, logger, post: (event) => poster.post(event), hasClaims, managesClaims },
      clusterApi: hasClusterApi ? api : undefined,
      whereabouts: options.whereabouts,
    });
    try {
      await leading.run(ended);
    } catch (error) {
      // Without its signal it is a defect: the next replica, or the next start, goes on.
      if (!ended.aborted) throw error;
      logger.info({ reason: describeThrown(ended.reason) }, "not leading any more");
    } finally {
      leading = undefined;
    }
  };
  const lease = new Lease({ api: watched, namespace, name: LEASE_NAME, identity, clock });
  try {
    await lease.run(lead, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  logger.info({ signal: signal.reason }, "stopping; nodes keep their blocks");
}

type LeaseApi = Pick<KubeApi, "get" | "create" | "update">;

/** Requests for the Lease, and when the API server last answered one. */
class AnswerWatch implements LeaseApi {
  readonly #api: LeaseApi;
  readonly #clock: Clock;
  readonly #logger: Logger;
  #answeredMs: number | undefined;
  #failure: string | undefined = "it has not answered yet";

  constructor(api: LeaseApi, clock: Clock, logger: Logger) {
    this.#api = api;
    this.#clock = clock;
    this.#logger = logger;
  }

  get problem(): string | undefined {
    const sinceMs = this.#clock.monotonic() - (this.#answeredMs ?? Number.NEGATIVE_INFINITY);
    return sinceMs < SILENCE_MS ? undefined : (this.#failure ?? "it does not answer");
  }

  get(...call: Parameters<KubeApi["get"]>) {
    return this.#noted(this.#api.get(...call));
  }

  create(...call: Parameters<KubeApi["create"]>) {
    return this.#noted(this.#api.create(...call));
  }

  update(...call: Parameters<KubeApi["update"]>) {
    return this.#noted(this.#api.update(...call));
  }

  async #noted<Value>(answer: Promise<Value>): Promise<Value> {
    try {
      const value = await answer;
      this.#answered();
      return value;
    } catch (error) {
      if (!(error instanceof ApiFailure)) throw error;
      if (ANSWERS.includes(error.problem)) this.#answered();
      else this.#failed(error.message);
      throw error;
    }
  }

  #answered(): void {
    this.#answeredMs = this.#clock.monotonic();
    this.#failure = undefined;
  }

  /** Logged once for each reason until it answers again. */
  #failed(reason: string): void {
    if (this.#failure !== reason) this.#logger.warn({ reason }, "the API server does not serve the Lease");
    this.#failure = reason;
  }
}
