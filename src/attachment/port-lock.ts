import { type PortIdentity, portKey } from "../records/port-record.ts";
import type { LockRequest } from "../sync/keyed-mutex.ts";

/** Asks for the lock of a port: CNI's verbs and the reconciler change a port and its record only while they hold it. */
export function portLock(identity: PortIdentity, what: string, signal: AbortSignal): LockRequest {
  const { allocationId, interfaceName } = identity;
  const where = `interface ${interfaceName} of allocation ${allocationId}`;
  return { key: portKey(identity), what, where, signal };
}
