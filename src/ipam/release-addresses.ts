import { toFailure } from "../failure/failure.ts";
import { attachmentFields } from "../logging/fields.ts";
import type { Logger } from "../logging/logger.ts";
import { present } from "../names/present.ts";
import { type AddressLease, type PortRecord, portKey } from "../records/port-record.ts";
import { type Records, updatePort } from "../records/records.ts";
import type { Clock } from "../sync/clock.ts";
import type { KeyedMutex } from "../sync/keyed-mutex.ts";
import type { Delegate, IpamRequest } from "./ipam.ts";
import { runIpam } from "./plugin-ipam.ts";

/** What releasing addresses works with. */
export interface ReleaseContext {
  readonly node: { readonly records: Pick<Records, "ports"> };
  /** By {@link portKey}. */
  readonly locks: KeyedMutex;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Releases addresses and removes their lease from the record, and the record where it was kept for that lease alone. To be
 * called with the port's lock.
 * @param request what the IPAM is asked with; default what its ADD was
 * @throws Failure of {@link runIpam}; the lease then holds when the try was
 */
export async function releaseAddresses(
  record: PortRecord,
  lease: AddressLease,
  { node, clock }: ReleaseContext,
  delegate: Delegate,
  request: IpamRequest = ipamRequestOf(lease),
): Promise<void> {
  const { ports } = node.records;
  try {
    await runIpam(lease.type, "DEL", request, delegate);
  } catch (error) {
    const failedReleases = { count: failures(lease) + 1, lastAt: clock.now() };
    const noted = (now: PortRecord) => withLease(now, lease.containerId, { ...lease, failedReleases });
    // A killed executable says nothing about the plugin: the next request may try at once.
    if (toFailure(error).code !== "ipam-interrupted") await updatePort(ports, record, noted);
    throw error;
  }
  await dropLease(ports, record, lease);
}

/**
 * Releases what an earlier attachment was given, or a call that was killed may have been, before the IPAM is asked again: it
 * may have no more addresses than pods, and gives one interface of one sandbox addresses only once.
 * @param release of one lease; what it leaves in the record is still to be released
 * @returns that, by the networks or claims that gave it
 */
export async function releaseEarlier(
  earlier: PortRecord | undefined,
  ports: Records["ports"],
  release: (record: PortRecord, lease: AddressLease) => Promise<void>,
): Promise<PortRecord["releases"]> {
  if (earlier === undefined) return [];
  for (const lease of leasesOf(earlier)) await release(earlier, lease);
  const left = ports.get(portKey(earlier));
  return left === undefined ? [] : [...leasesOf(left)];
}

/** {@link releaseAddresses}, where a failure is logged only: a later request tries again. */
export async function releaseNowOrLater(
  record: PortRecord,
  lease: AddressLease,
  context: ReleaseContext,
  delegate: Delegate,
  request?: IpamRequest,
): Promise<void> {
  try {
    await releaseAddresses(record, lease, context, delegate, request);
  } catch (error) {
    context.logger.warn(
      { ...attachmentFields(record), container: lease.containerId, err: toFailure(error) },
      "addresses not released, retrying with a later request",
    );
  }
}

/** Removes the lease of addresses that are not held any more, and a record that was kept for it alone. */
export async function dropLease(
  ports: Records["ports"],
  record: PortRecord,
  { containerId }: AddressLease,
): Promise<void> {
  const isLast = ({ state, releases }: PortRecord) =>
    state === "releasing" && releases.every((lease) => lease.containerId === containerId);
  await ports.remove(portKey(record), isLast);
  await updatePort(ports, record, (now) => withLease(now, containerId, undefined));
}

/** What a claim's port and lease have in place of a sandbox's id. */
export function sandboxOfClaim(uid: string): string {
  return `${CLAIM_SANDBOX}${uid}`;
}

const CLAIM_SANDBOX = "claim-";

/** Whether what stands in place of a sandbox's id is a claim's. */
export function isSandboxOfClaim(containerId: string): boolean {
  return containerId.startsWith(CLAIM_SANDBOX);
}

/**
 * Whether a claim's IPAM plugin gave the addresses, which the daemon runs in its container. A network's runs on the node:
 * each may keep its addresses where the other does not see them, so neither releases what the other gave.
 */
export function isLeaseOfClaim({ containerId }: AddressLease): boolean {
  return isSandboxOfClaim(containerId);
}

/** All addresses that an IPAM may hold for a port. */
export function leasesOf({ lease, releases }: PortRecord): readonly AddressLease[] {
  return lease === undefined ? releases : [...releases, lease];
}

/** The record with another lease of a sandbox, or without it. */
function withLease(record: PortRecord, containerId: string, changed: AddressLease | undefined): PortRecord {
  const { lease, ...rest } = record;
  const change = (one: AddressLease) => (one.containerId === containerId ? changed : one);
  const own = lease && change(lease);
  const releases = record.releases.flatMap((one) => change(one) ?? []);
  return present({ ...rest, releases, lease: own });
}

/** What the IPAM was asked with. */
export function ipamRequestOf({ request }: AddressLease): IpamRequest {
  return { env: request.env, stdin: Buffer.from(request.stdin) };
}

function failures({ failedReleases }: AddressLease): number {
  return failedReleases?.count ?? 0;
}

/** Time for a release that is not the request's own first one, doubled with each failure. */
const FIRST_LIMIT_MS = 3_000;
const LAST_LIMIT_MS = 24_000;

/**
 * Limits a delegate for a repeated release, the less the more often it failed: a plugin that hangs holds up few requests
 * for a short time, and one that is slow gets its time in the end.
 */
export function limitedForRetry(delegate: Delegate, lease: AddressLease): Delegate {
  const limitMs = Math.min(LAST_LIMIT_MS, FIRST_LIMIT_MS * 2 ** failures(lease));
  return (call) => delegate({ ...call, limitMs });
}

/** Releases that one request retries, and the time after which it begins no further one. */
const RETRIES_MAX = 4;
const RETRIES_MS = 2_000;
/** A request that took longer retries none: its caller has waited long enough. */
const LONG_REQUEST_MS = 20_000;
/** Pause after a failure, doubled with each. */
const FIRST_PAUSE_MS = 60_000;
const LAST_PAUSE_MS = 3_600_000;

/**
 * Releases addresses of attachments that ended while no CNI executable was there to run the plugin: the DEL was lost, or
 * came while the daemon was away. Any request's executable can run it. Called after the request's own work; never throws.
 * @param startedAtMs when that work began, in milliseconds of `clock.monotonic()`
 * @param isOwn whether the delegate's plugins gave a lease
 */
export async function retryPendingIpamDels(
  context: ReleaseContext,
  delegate: Delegate,
  startedAtMs: number,
  isOwn: (lease: AddressLease) => boolean = (lease) => !isLeaseOfClaim(lease),
): Promise<void> {
  const { node, locks, clock } = context;
  const beganMs = clock.monotonic();
  if (beganMs - startedAtMs > LONG_REQUEST_MS) return;
  const due = node.records.ports
    .list()
    .flatMap((record) => record.releases.map((lease) => ({ record, lease })))
    .filter(({ lease }) => isOwn(lease) && isDue(lease, clock.now()))
    .sort((one, other) => lastTry(one.lease) - lastTry(other.lease));
  for (const { record, lease } of due.slice(0, RETRIES_MAX)) {
    if (clock.monotonic() >= beganMs + RETRIES_MS) return;
    const key = portKey(record);
    const what = `release of addresses of interface ${record.interfaceName}`;
    const retry = async () => {
      const pending = node.records.ports
        .get(key)
        ?.releases.find((one) => one.containerId === lease.containerId);
      // Another request may have retried it meanwhile.
      if (pending === undefined || !isDue(pending, clock.now())) return;
      await releaseNowOrLater(record, pending, context, limitedForRetry(delegate, pending));
    };
    // A request that works on that port is not waited for.
    await locks.run({ key, what, signal: AbortSignal.abort() }, retry, () => undefined);
  }
}

function isDue(lease: AddressLease, nowMs: number): boolean {
  const count = failures(lease);
  if (count === 0) return true;
  const pause = Math.min(LAST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (count - 1));
  // After a clock that was set back it must not wait for ever.
  return nowMs >= lastTry(lease) + pause || nowMs < lastTry(lease);
}

function lastTry({ failedReleases }: AddressLease): number {
  return failedReleases?.lastAt ?? 0;
}
