import type { PortSettings } from "../config/port-settings.ts";

/**
 * Whose port it is, kept in the switch itself so that a port without a record can be attributed. Allocation and
 * interface identify a port; the rest may change while it exists.
 */
export interface PortOwner {
  readonly node: string;
  readonly podNamespace: string;
  readonly podName: string;
  /** Empty where the runtime does not pass it. */
  readonly podUid: string;
  /** Sandbox that has the port now; empty where the switch cannot say. */
  readonly containerId: string;
  readonly interfaceName: string;
  /** Name of the CNI network. */
  readonly network: string;
  readonly mac: string;
  readonly allocationId: string;
}

/** What a port is to be. */
export interface PortRequest {
  /** At most 15 characters, unique in the switch. */
  readonly name: string;
  readonly bridge: string;
  /** Socket as the switch sees it; it need not exist yet. */
  readonly socketPath: string;
  /** Bytes of layer 3; absent leaves the switch's default. */
  readonly mtu?: number;
  /** Everything else that the network asks for. */
  readonly settings: PortSettings;
  readonly owner: PortOwner;
}

/** What a port is, read back from the switch; `bridge` is empty where none holds it, as with a routed port. */
export interface PortState extends Omit<PortRequest, "settings"> {
  /** `up` once the guest's driver runs its queues. */
  readonly link: "up" | "down";
  /** Whether a vhost-user peer (QEMU, testpmd) is connected to the socket. */
  readonly connected: boolean;
  /** Where the switch is the socket's server: name of the file that it makes in its own directory of sockets. */
  readonly socketFile?: string;
  /** The switch's own words where it could not make the port. */
  readonly error?: string;
  /** Of a port that was to be ensured: what was not as asked before, one sentence each. Absent where all was. */
  readonly changes?: readonly string[];
}

/** What went through a port in one direction since the switch made it. */
export interface Traffic {
  readonly packets: number;
  readonly bytes: number;
  /** Packets that the switch received and did not forward. */
  readonly dropped: number;
}

/** A port with all that its switch reports of it, for people. */
export interface PortInspection extends PortState {
  /** Pairs of queues that the peer has brought; absent without one, and where the switch does not report it. */
  readonly queuePairs?: number;
  /** NUMA node of the guest's memory; likewise. */
  readonly numaNode?: number;
  /** Absent where the switch has no counters, or has not counted yet. */
  readonly traffic?: { readonly fromGuest: Traffic; readonly toGuest: Traffic };
  /** Drops by their reason, in the switch's own names; reasons without a drop are left out. */
  readonly drops?: Readonly<Record<string, number>>;
}
