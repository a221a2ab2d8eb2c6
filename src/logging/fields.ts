/** The only names that fields of log lines have, with what they hold: whoever searches logs knows them by heart. */
export const LOG_FIELDS = {
  pod: "namespace/name",
  container: "id of the sandbox, as the runtime gives it",
  interface: "name of a pod's interface",
  interfaces: "names of several",
  network: "name of the CNI network",
  device: "id of a device",
  devices: "ids of several",
  allocation: "id of an allocation, which is its directory's name too",
  pool: "name of a pool",
  pools: "names of several",
  resource: "extended resource",
  port: "name of a port in the switch",
  bridge: "bridge in the switch",
  label: "SELinux label",
  node: "name of the node",
  numaNode: "number of a NUMA node",
  vmi: "name of the VirtualMachineInstance",
  binding: "name of the network binding that a sidecar serves",
  verb: "CNI verb, or the name of another call",
  stage: "stage of a pass of the reconciler",
  state: "state of a record",
  keys: "keys of the configuration",
  added: "what is new: names, or how many",
  removed: "what was removed: names, or how many",
  changed: "what was changed: names, or whether anything was",
  lockedMs: "milliseconds for which a directory is taken from its pod",
  socket: "path of a unix socket",
  file: "path of a file or directory",
  url: "where something is served over HTTP",
  signal: "signal that a process got",
  reason: "why, in words",
  code: "code of a failure or of the system, where there is no err",
  version: "release of a program that is spoken to",
  err: "an error, with code, stack and causes",
} as const satisfies Readonly<Record<string, string>>;

/** Name of a log line's field. */
export type LogField = keyof typeof LOG_FIELDS;

/** Fields of a log line. */
export type LogFields = Readonly<Partial<Record<LogField, unknown>>>;

/** What an attachment's record tells. */
export interface LoggedAttachment {
  readonly podNamespace: string;
  readonly podName: string;
  readonly containerId: string;
  readonly interfaceName: string;
  readonly network: string;
  readonly device: string;
  readonly allocationId: string;
  readonly pool: string;
  readonly portName: string;
}

/** Fields that every line about one attachment carries. */
export function attachmentFields(record: LoggedAttachment): LogFields {
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

/** What an allocation's record tells. */
export interface LoggedAllocation {
  readonly id: string;
  readonly pool: string;
  readonly resource: string;
  readonly devices: readonly string[];
}

/** Fields that every line about one allocation carries. */
export function allocationFields(record: LoggedAllocation): LogFields {
  return {
    allocation: record.id,
    pool: record.pool,
    resource: record.resource,
    devices: record.devices,
  };
}
