import type { StaleRequestFilter } from "../cni/stale-requests.ts";
import type { KubeApi } from "../kube-api/client.ts";
import type { Logger } from "../logging/logger.ts";
import type { Clock } from "../sync/clock.ts";
import type { KeyedMutex } from "../sync/keyed-mutex.ts";
import type { NodeState } from "./node-state.ts";

/** What the agent uses of the API server. */
export type AgentApi = Pick<
  KubeApi,
  "get" | "list" | "openWatch" | "create" | "update" | "delete" | "servedVersions"
>;

/** Of AgentContext. */
export type ClaimsMode = "off" | "referenced" | "managed";

/** What every part of the agent works with. */
export interface AgentContext {
  /** Name of the node. */
  readonly node: string;
  readonly api: AgentApi;
  readonly state: NodeState;
  /** Of allocations and blocks, by {@link allocationLock} and {@link blockLock}. */
  readonly locks: KeyedMutex;
  readonly stale: StaleRequestFilter;
  /** When the newest sandbox of an interface of a pod asked for addresses, by {@link podInterface}. */
  readonly newestAdds: Map<string, number>;
  /**
   * Whether a network namespace is there, by its path.
   * @throws where that cannot be known
   */
  readonly hasNetns: (path: string) => Promise<boolean>;
  /**
   * Paths of the network namespaces that are there.
   * @throws where that cannot be known
   */
  readonly listNetns: () => Promise<readonly string[]>;
  /**
   * What interfaces of networks with allowPersistentIPs get: nothing (`off`), the addresses of the claim that the pod names
   * (`referenced`), or for VMs also those of the claim that our controller makes (`managed`).
   */
  readonly claims: ClaimsMode;
  /** UID of the agent's own pod, which uses no address of ours. */
  readonly ownPodUid: string | undefined;
  /** From 0 up to 1. */
  readonly random: () => number;
  readonly clock: Clock;
  readonly logger: Logger;
}
