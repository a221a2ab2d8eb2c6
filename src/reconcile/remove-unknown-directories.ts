import { isIdle } from "../allocation/directory/is-idle.ts";
import { listAllocationDirectories } from "../allocation/directory/list.ts";
import { removeAllocationDirectory } from "../allocation/directory/remove.ts";
import { describeThrown } from "../failure/failure.ts";
import type { ReconcilePass } from "./reconcile-pass.ts";

/**
 * Removes directories without a record: an Allocate that was killed before its record left them, and kubelet was
 * never answered. The record may also have been lost while a pod lives on, so a directory goes only when it is
 * old enough, no record file of its name is unreadable, no port of the switch stands on it, and no pod has made anything in it; and all that at two looks in a row, for a clock that steps
 * forward makes an Allocate's look old.
 * @param before what the look before this one returned
 * @returns what to compare with at the next look
 */
export async function removeUnknownDirectories(
  allocationsOfPorts: ReadonlySet<string>,
  before: ReadonlySet<string>,
  nowMs: number,
  pass: ReconcilePass,
): Promise<ReadonlySet<string>> {
  const { config, records } = pass.context;
  const { root } = pass.places;
  const unknown = new Set<string>();
  let left = 0;
  for (const id of await listAllocationDirectories(root)) {
    if (records.allocations.get(id) !== undefined || allocationsOfPorts.has(id)) continue;
    if (records.allocations.unreadable.some(({ file }) => file.includes(id))) continue;
    try {
      if (!(await isIdle(root, id, nowMs - config.reclaim.graceSeconds * 1000))) continue;
      unknown.add(id);
      if (!before.has(id)) continue;
      pass.logger.warn({ allocation: id }, "removing a directory that has no record");
      await removeAllocationDirectory(root, id);
      pass.observer.repaired("unknown-directory");
    } catch (error) {
      left += 1;
      pass.observer.itemFailed(error);
      pass.logger.warn({ allocation: id, reason: describeThrown(error) }, "a directory cannot be removed");
    }
  }
  pass.observer.leftover("directory", left);
  return unknown;
}
