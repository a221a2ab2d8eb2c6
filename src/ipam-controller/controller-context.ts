import { ApiFailure } from "../kube-api/api-failure.ts";
import type { KubeApi } from "../kube-api/client.ts";
import type { LogFields } from "../logging/fields.ts";
import type { Logger } from "../logging/logger.ts";
import type { NodeEvent } from "../observe/events/event.ts";
import type { Clock } from "../sync/clock.ts";
import type { ClusterView } from "./cluster-view.ts";

/** What the controller uses of the Kubernetes API. */
export type ControllerApi = Pick<KubeApi, "get" | "list" | "openWatch" | "create" | "update" | "delete">;

/** What was done since the start. */
export interface ControllerCounts {
  blocksQuarantined: number;
  blocksDeleted: number;
  blocksShared: number;
  allocationsFreed: number;
  claimsPublished: number;
  claimsRefused: number;
  passesOk: number;
  passesFailed: number;
}

/** What the controller's parts share. */
export interface ControllerContext {
  readonly api: ControllerApi;
  readonly view: ClusterView;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly counts: ControllerCounts;
  readonly post: (event: NodeEvent) => void;
  /** A part of a pass failed; what it was about stays as it is. */
  readonly onFailure: (fields: LogFields, what: string, error: unknown) => void;
}

/** Whether a write came too late: the object was changed, removed, or made by another writer. */
export function isOvertaken(error: unknown): boolean {
  return error instanceof ApiFailure && ["conflict", "not-found", "exists"].includes(error.problem);
}
