/** The fields that a log line may have, so that one search finds everything about one pod, port or pool. */
export interface LogFields {
  /** namespace/name */
  readonly pod?: string | undefined;
  /** Sandbox id, as the runtime gives it. */
  readonly container?: string | undefined;
  /** Name of a pod's interface. */
  readonly interface?: string | undefined;
  readonly interfaces?: readonly string[];
  /** Name of the CNI network. */
  readonly network?: string | undefined;
  /** Keys of a configuration. */
  readonly keys?: readonly string[];
  /** Id of a device. */
  readonly device?: string | undefined;
  readonly devices?: readonly string[];
  /** Id of an allocation, which is also the name of its directory; name of an AddressAllocation. */
  readonly allocation?: string | undefined;
  readonly pool?: string | undefined;
  readonly pools?: readonly string[];
  /** Name of an AddressBlock. */
  readonly block?: string;
  readonly blocks?: number;
  /** With their prefix lengths, or how many. */
  readonly addresses?: readonly string[] | number;
  /** Extended resource, for example `vhostuser/sockets`. */
  readonly resource?: string | undefined;
  /** Name of a port in the switch. */
  readonly port?: string | undefined;
  /** Bridge in the switch. */
  readonly bridge?: string | undefined;
  /** Name of a node that a line is about; the program's own is in every line. */
  readonly node?: string | undefined;
  /** SELinux label. */
  readonly label?: string | undefined;
  /** The hardware behind a bridge: NUMA node, PCI address and root, MTU. */
  readonly uplink?: object | undefined;
  /** namespace/name of a ResourceClaim, an IPAMClaim, or an IPAddressClaim of Cluster API. */
  readonly claim?: string | undefined;
  /** Name of the VirtualMachineInstance, with its namespace where that is not the program's. */
  readonly vmi?: string | undefined;
  /** Name of the network binding that a sidecar serves. */
  readonly binding?: string | undefined;
  /** CNI verb, or the name of another call. */
  readonly verb?: string | undefined;
  /** Stage of a reconciler pass. */
  readonly stage?: string | undefined;
  /** State of a record, or health of a pool's devices. */
  readonly state?: string | undefined;
  /** What was removed or changed: names, or how many. */
  readonly removed?: readonly string[] | number | undefined;
  readonly changed?: readonly string[] | number | boolean | undefined;
  /** Path of a unix socket. */
  readonly socket?: string | undefined;
  /** Path of a file or directory. */
  readonly file?: string | undefined;
  /** Where something is served over HTTP. */
  readonly url?: string | undefined;
  /** Signal that a process received. */
  readonly signal?: string | undefined;
  readonly bytes?: number;
  /** What is left of a damaged record. */
  readonly entry?: string;
  /** Why, in words. */
  readonly reason?: string | undefined;
  /** Code of a failure or of the system, where there is no `err`. */
  readonly code?: string | number | undefined;
  /** Release of the program on the other side. */
  readonly version?: string | undefined;
  /** An error, logged with code and message, and with its stack where the code is `internal`. */
  readonly err?: unknown;
}

/** Fields of every line about one attachment. */
export function attachmentFields(record: {
  readonly podNamespace: string;
  readonly podName: string;
  readonly containerId: string;
  readonly interfaceName: string;
  readonly network: string;
  readonly device: string;
  readonly allocationId: string;
  readonly pool: string;
  readonly portName: string;
}): LogFields {
  return {
    pod: `${record.podNamespace}/${record.podName}`,
    container: record.containerId,
    interface: record.interfaceName,
    network: record.network,
    device: record.device,
    allocation: record.allocationId,
    pool: record.pool,
    port: record.portName,
  };
}
