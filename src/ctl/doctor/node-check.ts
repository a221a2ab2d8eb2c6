import type { DaemonConfig } from "../../config/schema.ts";
import type { Dataplane } from "../../dataplane/dataplane.ts";
import type { ApiServerPlace } from "../../kube-api/open-api.ts";
import type { PlaceOptions } from "../command-context.ts";

/** What a check found of one thing. */
export interface Finding {
  /** `warning` does no harm now; `skipped` says why it was not checked. */
  readonly verdict: "ok" | "warning" | "problem" | "skipped";
  readonly what: string;
  /** What to do about it. */
  readonly cure?: string;
}

/** A pool's switch, opened by the doctor itself. */
export interface CheckedSwitch {
  readonly pool: DaemonConfig["pools"][number];
  readonly dataplane: Dataplane;
}

/** What checks of the node read. */
export interface CheckedNode {
  readonly config: DaemonConfig;
  readonly switches: readonly CheckedSwitch[];
  readonly host: CheckedHost;
}

/** What checks that need no configuration read. */
export interface CheckedHost {
  readonly places: PlaceOptions;
  /** Release of this program. */
  readonly version: string;
  /** Where proc is mounted, with `mountinfo` of this process below `self`. */
  readonly proc: string;
  /** Where sysfs is mounted. */
  readonly sys: string;
  /** Release, as in uname(2). */
  readonly kernel: string;
  /** Where the environment says that the API server is, as it does in pods. */
  readonly apiServer?: ApiServerPlace | undefined;
  /** Effective uid of this program. */
  readonly uid: number;
  /** Runs a program and gives its output; rejects where it cannot be started or fails. */
  readonly run: (command: string, args: readonly string[]) => Promise<string>;
}

/** A check of a node; it changes nothing. What it throws is a problem too. */
export type NodeCheck = (node: CheckedNode, signal: AbortSignal) => Promise<readonly Finding[]>;

/** A check that needs no configuration. */
export type HostCheck = (host: CheckedHost) => Promise<readonly Finding[]>;

export function fine(what: string): Finding {
  return { verdict: "ok", what };
}

export function problem(what: string, cure: string): Finding {
  return { verdict: "problem", what, cure };
}

export function warning(what: string, cure: string): Finding {
  return { verdict: "warning", what, cure };
}

export function skipped(what: string): Finding {
  return { verdict: "skipped", what };
}
