import type { PortInspection, PortRequest, PortState } from "./port.ts";
import type { Uplink } from "./uplink.ts";

/**
 * Whether a bridge can take ports now; else the reason says why not and what to do. Of one that can, `limitations` has a
 * sentence for each feature that this switch does not offer.
 */
export type Readiness =
  | { readonly ready: true; readonly limitations?: readonly string[] }
  | { readonly ready: false; readonly reason: string };

/** A guest's driver started or stopped running the queues of a port of ours; a port that is gone is down. */
export interface LinkChange {
  /** The port's name. */
  readonly port: string;
  readonly link: PortState["link"];
}

/** In what kinds of switches differ, as far as code outside src/dataplane has to care. */
export interface DataplaneCapabilities {
  /** The switch loses all ports when it restarts: after each connection they may have to be made again. */
  readonly forgetsPorts: boolean;
  /** A socket that the switch serves is made directly at {@link PortRequest.socketPath}, not in a directory of its own. */
  readonly servesInPlace: boolean;
  /** It has guests' requests for addresses answered: the setting `dhcp`. */
  readonly answersDhcp: boolean;
}

/**
 * A userspace switch. Code above this interface never asks which one it has.
 * Every call takes a signal and rejects with a Failure when it fires; every call may be repeated.
 */
export interface Dataplane {
  readonly capabilities: DataplaneCapabilities;

  /** Whether the switch answers and `bridge` can take vhost-user ports. Never throws for a dead switch. */
  probe(bridge: string, signal: AbortSignal): Promise<Readiness>;

  /**
   * Makes the port, adopts it when it is ours already, repairs what differs, and waits until the switch has
   * applied it. On failure nothing that this call made is left, as far as the switch can be reached; a port that
   * was there before stays, because a VM may be using it.
   * @throws Failure bridge-missing, vrf-missing, dataplane-misconfigured, port-conflict, port-failed, dataplane-unavailable,
   *   dataplane-timeout, dataplane-protocol, path-too-long, directory-unsafe, invalid-request,
   *   invalid-network-config (settings that the switch would not honour), setting-unsupported (a setting that this
   *   kind of switch does not have): both before anything is changed. Where the switch is no longer configured for a
   *   setting of a port that is there, everything else is repaired first
   */
  ensurePort(request: PortRequest, signal: AbortSignal): Promise<PortState>;

  /** Removes our port of this name; false when there was none. A port that is not ours is never touched. */
  removePort(name: string, signal: AbortSignal): Promise<boolean>;

  /** What differs from the request, one sentence each; empty when the port is as asked. */
  checkPort(request: PortRequest, signal: AbortSignal): Promise<readonly string[]>;

  /**
   * Names of those ports that are exactly as requested, by one reading of the switch: the others need
   * {@link ensurePort}. Only of kinds of switches that have to be read whole for any port.
   */
  settledPorts?(requests: readonly PortRequest[], signal: AbortSignal): Promise<readonly string[]>;

  /**
   * The network hardware behind `bridge`; nothing of a bridge that has none.
   * @throws Failure when the switch does not know yet or cannot be asked: dataplane-unavailable, dataplane-timeout, dataplane-protocol
   */
  uplink(bridge: string, signal: AbortSignal): Promise<Uplink>;

  /** All ports that carry this node's mark. */
  listPorts(signal: AbortSignal): Promise<readonly PortState[]>;

  /**
   * The ports of {@link listPorts} with queues and counters, as far as the switch has them; one reading, however
   * many ports. Counters may be some seconds old.
   */
  inspectPorts(signal: AbortSignal): Promise<readonly PortInspection[]>;

  /** The switch's name and release, for people. @throws Failure when it cannot be asked */
  version(signal: AbortSignal): Promise<string>;

  /**
   * Removes what carries this node's mark and serves no port, of the things that a switch keeps beside its ports.
   * @returns how many there were
   */
  removeStrays(signal: AbortSignal): Promise<number>;

  /**
   * Lets bridges that carry nothing after the switch's start forward, once all ports are as asked. Only of switches
   * that have such bridges.
   */
  enableForwarding?(signal: AbortSignal): Promise<void>;

  /**
   * Calls `onLink` for guests that come and go until the signal fires or the switch is closed; resolves then and
   * never rejects. Ports that are up when it begins are not reported; what changed while the switch was down is, when
   * it is back. A kind of switch without such events resolves at once.
   */
  watchLinks(onLink: (change: LinkChange) => void, signal: AbortSignal): Promise<void>;

  /**
   * Has the switch handle frames as if the guest behind a port had sent them, so that the port's VLAN applies; only
   * while {@link watchLinks} runs.
   * @returns false where nothing was sent: the port is not ours or gone, its guest is not there, or this kind of
   *   switch cannot
   * @throws Failure dataplane-unavailable, dataplane-timeout, dataplane-misconfigured, dataplane-protocol
   */
  announce(
    port: { readonly name: string; readonly bridge: string },
    frames: readonly Uint8Array[],
    signal: AbortSignal,
  ): Promise<boolean>;

  /**
   * A guest has left a port of this bridge, perhaps for another node: for some seconds the switch applies learned MAC
   * addresses at once. Returns at once and fails silently. Only of switches that apply them late otherwise.
   */
  refreshMacTable?(bridge: string): void;

  close(): Promise<void>;
}
