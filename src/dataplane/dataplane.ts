import type { PortRequest, PortState } from "./port.ts";

/** Whether a bridge can take ports now, else why not and what to do. */
export type Readiness = { readonly ready: true } | { readonly ready: false; readonly reason: string };

/**
 * A userspace switch. Code above this interface never asks which one it has.
 * Every call takes a signal and rejects with a Failure when it fires; every call may be repeated.
 */
export interface Dataplane {
  /** Whether the switch answers and `bridge` can take vhost-user ports. Never throws for a dead switch. */
  probe(bridge: string, signal: AbortSignal): Promise<Readiness>;

  /**
   * Makes the port, adopts it when it is ours already, repairs what differs, and waits until the switch has
   * applied it. On failure nothing that this call made is left, as far as the switch can be reached; a port that
   * was there before stays, because a VM may be using it.
   * @throws Failure bridge-missing, dataplane-unfit, port-conflict, port-failed, dataplane-unavailable,
   *   dataplane-timeout, dataplane-protocol, path-too-long, directory-unsafe, invalid-request,
   *   invalid-network-config (settings that the switch would not honour), setting-unsupported (a setting that this
   *   kind of switch does not have): both before anything is changed
   */
  ensurePort(request: PortRequest, signal: AbortSignal): Promise<PortState>;

  /** Removes our port of this name; false when there was none. A port that is not ours is never touched. */
  removePort(name: string, signal: AbortSignal): Promise<boolean>;

  /** What differs from the request, one sentence each; empty when the port is as asked. */
  checkPort(request: PortRequest, signal: AbortSignal): Promise<readonly string[]>;

  /**
   * The NUMA node of the network hardware behind `bridge`; undefined where there is none, or more than one node.
   * @throws Failure when the switch cannot tell now: dataplane-unavailable, dataplane-timeout, dataplane-protocol
   */
  numaNode(bridge: string, signal: AbortSignal): Promise<number | undefined>;

  /** All ports that carry this node's mark. */
  listPorts(signal: AbortSignal): Promise<readonly PortState[]>;

  /**
   * Removes what carries this node's mark and serves no port, of the things that a switch keeps beside its ports.
   * @returns how many there were
   */
  removeStrays(signal: AbortSignal): Promise<number>;

  /** All ports that are to be there are as asked: a bridge that was held back until then may carry traffic. */
  portsSettled(signal: AbortSignal): Promise<void>;

  close(): Promise<void>;
}
