// ADD and DEL of one interface in one sandbox, each on disk before.
import { refuseIn } from "../dra/claim.ts";
import { type Failure, toFailure } from "../failure/failure.ts";
import type { Delegate } from "../ipam/ipam.ts";
import type { LogFields } from "../logging/fields.ts";
import type { Logger } from "../logging/logger.ts";
import type { PodSandbox } from "../protocols/nri/messages.ts";
import type { RecordStore } from "../records/record-store.ts";
import type { Clock } from "../sync/clock.ts";
import { type FilePlaces, showReadiness } from "./interface-files.ts";
import type { Attachment, InterfaceRecord } from "./interface-record.ts";
import { addNetwork, checkNetwork, delNetwork } from "./run-network.ts";

/** What interfaces are made with. */
export interface InterfacesOptions {
  readonly records: Pick<RecordStore<InterfaceRecord>, "get" | "list" | "put" | "remove">;
  /** Runs CNI plugins. */
  readonly delegate: Delegate;
  readonly places: FilePlaces;
  /** Whether a network namespace is there that is not the host's, by its path. */
  readonly hasNetns: (path: string) => Promise<boolean>;
  /** Called when an interface was made, failed or has ended. */
  readonly report: (record: InterfaceRecord, problem?: Failure) => void;
  /** Called when a DEL is stuck, and when a DEL that has failed is done or given up. */
  readonly reportDel: (record: InterfaceRecord) => void;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Makes an interface in a sandbox, unless it is there. What an ADD left that was cut short is removed first.
 * @throws Failure of a plugin, `invalid-claim`, `record-unwritable`; the caller calls {@link delEnding} then
 */
export async function attachInterface(
  record: InterfaceRecord,
  pod: PodSandbox,
  options: InterfacesOptions,
): Promise<void> {
  const { delegate, hasNetns, report, clock, logger } = options;
  const found = record.attachments.find(({ sandbox }) => sandbox === pod.id);
  if (found?.state === "added") return;
  if (pod.netns === undefined || !(await hasNetns(pod.netns))) {
    throw refuseIn(record.claim, record)(
      "the pod has the host's network, or its network namespace is gone",
      "remove hostNetwork from the pod, or the claim",
    );
  }
  const others = record.attachments.filter(({ sandbox }) => sandbox !== pod.id);
  if (found !== undefined) await delNetwork(record, found, pod.netns, delegate);
  const adding: Attachment = { sandbox: pod.id, netns: pod.netns, state: "adding", since: clock.now() };
  await saveInterface({ ...record, attachments: [...others, adding] }, options);
  const result = await addNetwork(record, adding, delegate);
  const added: InterfaceRecord = {
    ...record,
    attachments: [...others, { ...adding, state: "added", result }],
  };
  await saveInterface(added, options);
  report(added);
  logger.info(fieldsOf(record, pod.id), "attached");
}

/**
 * DEL of what a record has that is to end: of all, also where one fails.
 * @throws Failure of the first DEL that failed; what was removed stays so
 */
export async function delEnding(record: InterfaceRecord, options: InterfacesOptions): Promise<void> {
  const { delegate, hasNetns, logger } = options;
  const failures: unknown[] = [];
  let left = record;
  for (const one of record.attachments.filter(isEnding)) {
    try {
      const netns = (await hasNetns(one.netns)) ? one.netns : "";
      await delNetwork(record, one, netns, delegate);
    } catch (error) {
      failures.push(error);
      continue;
    }
    left = { ...left, attachments: left.attachments.filter((other) => other !== one) };
    await saveInterface(left, options);
    logger.info(fieldsOf(record, one.sandbox), "detached");
  }
  if (failures.length > 0) throw failures[0];
}

/** Puts a record on disk, and then lets containers start that use the interface, or not. @throws Failure `record-unwritable` */
export async function saveInterface(
  record: InterfaceRecord,
  { records, places }: Pick<InterfacesOptions, "records" | "places">,
): Promise<void> {
  await records.put(record);
  showReadiness(record, places);
}

/** What CHECK found of an interface. */
export interface CheckedInterface {
  readonly record: InterfaceRecord;
  readonly outcome: "ok" | "failed" | "unchecked";
  readonly reason?: string;
}

/** CHECK of an interface, unless it is not there, or its network has no CHECK. */
export async function checkInterface(record: InterfaceRecord, delegate: Delegate): Promise<CheckedInterface> {
  const unchecked = (reason: string) => ({ record, outcome: "unchecked" as const, reason });
  const added = record.attachments.find(({ state }) => state === "added");
  const { cniVersion, disableCheck } = record.network;
  if (added === undefined) return unchecked("the pod does not have it now");
  if (disableCheck) return unchecked("its network has disableCheck");
  // Since 0.4.0 (CNI spec, section 4).
  if (/^0\.3\./.test(cniVersion)) return unchecked(`CNI ${cniVersion} has no CHECK`);
  try {
    await checkNetwork(record, added, delegate);
    return { record, outcome: "ok" };
  } catch (error) {
    return { record, outcome: "failed", reason: toFailure(error).message };
  }
}

/** An attachment that is to be removed, from now on. */
export function ending(one: Attachment, now: number): Attachment {
  return { ...one, state: "deleting", endedAt: one.endedAt ?? now };
}

/** Whether an attachment is to be removed. */
export function isEnding({ state }: Attachment): boolean {
  return state === "deleting";
}

/** Fields of every line about one interface. */
export function fieldsOf({ claim, pod, ifName, network }: InterfaceRecord, container?: string): LogFields {
  return {
    ...{ pod: `${pod.namespace}/${pod.name}`, claim: `${claim.namespace}/${claim.name}` },
    ...{ interface: ifName, network: network.name, container },
  };
}
