import { ensureAttachment } from "../attachment/ensure-attachment.ts";
import { removeAttachment } from "../attachment/remove-attachment.ts";
import { describeThrown } from "../failure/failure.ts";
import { attachmentFields } from "../logging/fields.ts";
import { type PortRecord, portRecordName } from "../records/port-record.ts";
import { portSignal, type ReconcilePass } from "./reconcile-pass.ts";

/**
 * Takes back half-made ports, and removes those of an answered DEL whose switch was away.
 * @returns names of those that failed
 */
export function settleUnfinishedPorts(
  pass: ReconcilePass,
  options: EachPortOptions = {},
): Promise<ReadonlySet<string>> {
  const settle: PortWork = async (record, signal) => {
    // Addresses alone take a CNI executable, which the next request brings.
    if (record.state === "attached" || record.state === "releasing") return;
    // `attaching` in our turn means that the ADD that wrote it is over and did not succeed.
    pass.logger.warn({ ...attachmentFields(record), state: record.state }, "removing a port");
    const left = await removeAttachment(pass.context, record, signal);
    if (left !== undefined) throw left;
    pass.observer.repaired(record.state === "attaching" ? "unfinished-add" : "late-del");
  };
  return eachPort(pass, settle, options);
}

/** Ports that are worked on at the same time; a switch that has lost them all gets them back the faster. */
const AT_ONCE = 16;

/** Which ports, and how it is told. */
export interface EachPortOptions {
  /** Whether the log is warned of one that fails; default yes. A try that others follow at once is no news. */
  readonly isNews?: (port: string) => boolean;
  /** Names of the ports; default all. */
  readonly only?: ReadonlySet<string>;
}

/**
 * Makes or mends the ports of attachments.
 * @returns names of those that failed
 */
export function ensureAttachedPorts(
  pass: ReconcilePass,
  options: EachPortOptions = {},
): Promise<ReadonlySet<string>> {
  const ensure: PortWork = async (record, signal) => {
    if (record.state !== "attached") return;
    const allocation = pass.context.records.allocations.get(record.allocationId);
    // Its record may be torn while the pod lives; reclaiming decides with what kubelet knows.
    if (allocation === undefined) return;
    const { changes } = await ensureAttachment(pass.context, record, allocation, signal);
    if (changes === undefined) return;
    pass.observer.repaired("port");
    pass.observer.portRestored(record, changes);
    pass.logger.warn({ ...attachmentFields(record), reason: changes.join("; ") }, "restored a port");
  };
  return eachPort(pass, ensure, options);
}

/** Has the switch give up its connections to these ports' guests and make them anew: nothing else of a port goes. */
export function reconnectPorts(pass: ReconcilePass, only: ReadonlySet<string>): Promise<ReadonlySet<string>> {
  const reconnect: PortWork = async (record, signal) => {
    const allocation = pass.context.records.allocations.get(record.allocationId);
    const dataplane = pass.context.pools.ofPort(record)?.dataplane;
    if (record.state !== "attached" || allocation === undefined || dataplane === undefined) return;
    try {
      await dataplane.removePort(record.portName, signal);
    } finally {
      await ensureAttachment(pass.context, record, allocation, signal);
    }
    pass.observer.repaired("silent-guest");
    pass.logger.info(attachmentFields(record), "connected once more to a guest that was never heard");
  };
  return eachPort(pass, reconnect, { only });
}

type PortWork = (record: PortRecord, signal: AbortSignal) => Promise<void>;

/**
 * Does something for each record in its container's turn; one that fails is reported and the others go on.
 * @returns names of those that failed
 */
async function eachPort(
  pass: ReconcilePass,
  work: PortWork,
  { isNews = () => true, only }: EachPortOptions,
): Promise<ReadonlySet<string>> {
  const waiting = pass.context.records.ports
    .list()
    .filter(({ portName }) => only?.has(portName) !== false)
    .values();
  const failed = new Set<string>();
  const workers = Array.from({ length: AT_ONCE }, async () => {
    // They share one iterator, so each takes the next record that none has taken.
    for (const record of waiting) {
      if (pass.stop.aborted) return;
      const { portName } = record;
      const level = isNews(portName) ? "warn" : "debug";
      if (!(await onePort(pass, record, work, level))) failed.add(portName);
    }
  });
  await Promise.all(workers);
  return failed;
}

async function onePort(
  pass: ReconcilePass,
  { containerId, interfaceName, portName, allocationId }: PortRecord,
  work: PortWork,
  level: "warn" | "debug",
): Promise<boolean> {
  const { ports } = pass.context.records;
  const signal = portSignal(pass);
  const turn = {
    key: containerId,
    where: `container ${containerId}`,
    what: `repair of interface ${interfaceName}`,
    signal,
  };
  try {
    await pass.locks.run(turn, () =>
      // An ADD of a newer sandbox works on this allocation under another container's turn.
      pass.locks.run({ ...turn, key: allocationId, where: `allocation ${allocationId}` }, async () => {
        // A verb may have changed it while we waited for the turn.
        const record = ports.get(portRecordName(containerId, interfaceName));
        if (record !== undefined) await work(record, signal);
      }),
    );
    return true;
  } catch (error) {
    pass.observer.itemFailed(error);
    pass.logger[level]({ port: portName, reason: describeThrown(error) }, "port cannot be reconciled");
    return false;
  }
}
