import { Failure } from "../../../failure/failure.ts";
import type { OpenflowClient } from "../../../protocols/openflow/connection.ts";
import type { BridgeSecurity, SecuredPort } from "./secure-ports.ts";

/** A bridge that flows were ever asked for, and what is to hold on it. */
export interface WatchedBridge {
  readonly client: OpenflowClient;
  /** By name: what is to hold, as far as this process was told. */
  readonly ports: Map<string, SecuredPort>;
  /** Names of ports that are to be held and of which no more is known: nothing comes from them until {@link ensure}. */
  closed: ReadonlySet<string>;
  /** Whether its forwarding is a flow of ours. */
  forwarding: boolean;
  /** Ends the watch; there is none with nothing to hold. */
  watch: AbortController | undefined;
  /** Whether a restore is to follow the one that runs. */
  again: boolean;
  /** Whether a port was missing when it was last looked for: the next that comes may have taken its number. */
  incomplete: boolean;
}

/** What is to hold on the bridge, as far as this process was told. */
export function wantedOf({ ports, closed, forwarding }: WatchedBridge): BridgeSecurity {
  return { ports: [...ports.values()], closed, forwarding };
}

/** The failure of a call whose turn on this bridge did not come in time. */
export function waitedTooLong(bridge: string, signal: AbortSignal): Failure {
  if (signal.reason instanceof Failure) return signal.reason;
  return new Failure({
    code: "dataplane-timeout",
    what: `time was up while another change of the flows of bridge ${bridge} was still running`,
    cause: signal.reason,
  });
}
