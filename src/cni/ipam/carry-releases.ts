import { type PortRecord, portRecordName } from "../../records/port-record.ts";
import type { CniContext } from "../cni-context.ts";
import type { Delegate } from "../delegate.ts";
import { failedReleases, forAnotherTry, releaseNowOrLater } from "./release-addresses.ts";

/** Releases that one request carries, and the time after which it begins no further one. */
const CARRIED_MAX = 4;
const CARRIED_MS = 2_000;
/** A request that took longer carries none: its caller has waited enough. */
const LONG_REQUEST_MS = 20_000;
/** Pause after a try that failed; doubled with each, so that a plugin that hangs or is gone costs few requests anything. */
const FIRST_PAUSE_MS = 60_000;
const LAST_PAUSE_MS = 3_600_000;

/**
 * Gives addresses back whose attachment ended while no CNI executable was at hand: its DEL was lost, or came while
 * the daemon was away. Any request's executable will do. Called after the request's own work; never throws.
 * @param startedAt when that work began, in milliseconds since the epoch
 */
export async function carryReleases(
  context: CniContext,
  delegate: Delegate | undefined,
  startedAt: number,
): Promise<void> {
  if (delegate === undefined || context.clock.now() - startedAt > LONG_REQUEST_MS) return;
  const until = context.clock.now() + CARRIED_MS;
  const due = context.node.records.ports
    .list()
    .filter((record) => isDue(record, context.clock.now()))
    .sort((one, other) => lastTry(one) - lastTry(other));
  for (const record of due.slice(0, CARRIED_MAX)) {
    if (context.clock.now() >= until) return;
    const { containerId, interfaceName } = record;
    const turn = {
      key: containerId,
      what: `release of the addresses of interface ${interfaceName}`,
      // Whoever works on that container is not waited for.
      signal: AbortSignal.abort(),
    };
    await context.locks.run(
      turn,
      () => carry(portRecordName(containerId, interfaceName), context, delegate),
      () => undefined,
    );
  }
}

async function carry(name: string, context: CniContext, delegate: Delegate): Promise<void> {
  // Another request may have carried it meanwhile.
  const record = context.node.records.ports.get(name);
  if (record === undefined || !isDue(record, context.clock.now())) return;
  await releaseNowOrLater(record, context, forAnotherTry(delegate, record));
}

function isDue(record: PortRecord, nowMs: number): boolean {
  if (record.state !== "releasing" || record.ipam === undefined) return false;
  const count = failedReleases(record);
  if (count === 0) return true;
  const pause = Math.min(LAST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (count - 1));
  // A clock that was set back must not hold it up for ever.
  return nowMs >= lastTry(record) + pause || nowMs < lastTry(record);
}

function lastTry({ ipam }: PortRecord): number {
  return ipam?.failedReleases?.lastAt ?? 0;
}
