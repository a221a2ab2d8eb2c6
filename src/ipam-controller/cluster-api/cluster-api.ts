// Serves Cluster API where the cluster has it, in the version that it has.
import type { AddressPool } from "../../address-objects/address-pool.ts";
import { describeThrown } from "../../failure/failure.ts";
import type { KubeApi } from "../../kube-api/client.ts";
import { linked } from "../../sync/deadlines.ts";
import type { ControllerContext } from "../controller-context.ts";
import { CLAIM_GROUP, CLAIM_VERSIONS, CLUSTER_GROUP, ClusterApiResources } from "./objects.ts";
import { ClusterApiProvider } from "./provider.ts";

/** Between two questions which versions are served. */
const DISCOVERY_MS = 60_000;

/** What says which versions are served. */
export type Discovery = Pick<KubeApi, "servedVersions">;

/** Follows which versions of Cluster API are served, and has a provider work while there is one. */
export class ClusterApi {
  readonly #context: ControllerContext;
  readonly #discovery: Discovery;
  readonly #random: () => number;
  #provider: ClusterApiProvider | undefined;
  #served: ClusterApiResources | undefined;
  #isFirst = true;
  /** Revisions of the providers before. */
  #earlier = 0;

  constructor(context: ControllerContext, discovery: Discovery, random: () => number) {
    this.#context = context;
    this.#discovery = discovery;
    this.#random = random;
  }

  /** Undefined while the cluster does not have Cluster API. */
  get provider(): ClusterApiProvider | undefined {
    return this.#provider;
  }

  /** Grows when the pools may have changed that claims name. */
  get revision(): number {
    return this.#earlier + (this.#provider?.revision ?? 0);
  }

  /** How many claims wait for an address of a pool; undefined where no claim names it. */
  waitingFor({ name }: Pick<AddressPool, "name">): number | undefined {
    return this.#provider?.waitingFor(name);
  }

  /** Serves claims until the signal fires; rejects with its reason then. */
  async run(signal: AbortSignal): Promise<never> {
    const { clock, logger } = this.#context;
    for (;;) {
      await this.#discover(signal);
      const served = this.#served;
      if (served === undefined) {
        if (this.#isFirst)
          logger.info("the cluster has no IPAddressClaims of Cluster API; they are waited for");
        this.#isFirst = false;
        await clock.sleep(DISCOVERY_MS, signal);
        continue;
      }
      logger.info({ version: served.version }, "serving the claims of Cluster API");
      await linked(signal, async (ended) => {
        this.#provider = new ClusterApiProvider(this.#context, served, this.#random);
        try {
          await Promise.race([this.#provider.run(ended), this.#whileServed(served, ended)]);
        } finally {
          this.#earlier = this.revision + 1;
          this.#provider = undefined;
        }
      });
    }
  }

  /** Resolves when other versions are served. */
  async #whileServed(served: ClusterApiResources, signal: AbortSignal): Promise<void> {
    while (this.#served?.text === served.text) {
      await this.#context.clock.sleep(DISCOVERY_MS, signal);
      await this.#discover(signal);
    }
  }

  /** A server that does not answer changes nothing. */
  async #discover(signal: AbortSignal): Promise<void> {
    try {
      this.#served = await discover(this.#discovery, signal);
    } catch (error) {
      signal.throwIfAborted();
      this.#context.logger.debug({ reason: describeThrown(error) }, "discovery failed");
    }
  }
}

/** The newest versions that are served and understood; undefined without IPAddressClaims. @throws ApiFailure */
export async function discover(
  api: Discovery,
  signal: AbortSignal,
): Promise<ClusterApiResources | undefined> {
  const newest = async (group: string) => {
    const served = await api.servedVersions(group, signal);
    return CLAIM_VERSIONS.find((version) => served.includes(version));
  };
  const version = await newest(CLAIM_GROUP);
  return version && new ClusterApiResources(version, await newest(CLUSTER_GROUP));
}
