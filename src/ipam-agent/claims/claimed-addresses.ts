import { parseAddressAllocation } from "../../address-objects/address-allocation.ts";
import type { AddressPool, Subnet } from "../../address-objects/address-pool.ts";
import type { AddressSpace } from "../../address-objects/address-space.ts";
import { ADDRESS_ALLOCATIONS, allocationName, blockName } from "../../address-objects/resources.ts";
import { type Address, formatAddress, formatPrefix, isInPrefix } from "../../addresses/address.ts";
import { blockOf } from "../../addresses/grid.ts";
import { claimKey } from "../../claims/claim-name.ts";
import {
  type ClaimAddress,
  type ClaimCondition,
  claimCondition,
  type IpamClaim,
  networkCondition,
  writeClaimStatus,
} from "../../claims/ipam-claim.ts";
import type { FailureCode } from "../../failure/catalogue.ts";
import { describeThrown, Failure, toFailure } from "../../failure/failure.ts";
import { ApiFailure } from "../../kube-api/api-failure.ts";
import { present } from "../../names/present.ts";
import { allocateShared } from "../../pool-addresses/allocate-shared.ts";
import { missing } from "../address-source.ts";
import type { AgentContext } from "../agent-context.ts";
import type { Allocation } from "../journal-entries.ts";
import { unlessMissing } from "../own-blocks.ts";
import { type AllocationRequest, allocationEntry } from "../request.ts";
import { claimOfInterface, type ReadClaim, readClaim, refused } from "./claim-of-interface.ts";

/** The controller usually has allocated by then; in milliseconds. */
const WAITS_MS = [200, 300, 500];
/** A claim that was changed so often while its status was written. */
const ROUNDS = 10;

/** A pool of the network, with its space. */
interface ClaimPool {
  readonly pool: AddressPool;
  readonly space: AddressSpace;
}

/**
 * What an interface gets by its claim; undefined for one without a claim. Addresses that are published are given exactly, to
 * however many pods: a migration has two. Otherwise the controller, or else this agent, allocates one of each pool for the
 * claim, and publishes all of them with one write, which is refused if another program has written first.
 * @throws Failure `ipam-claim-missing`, `ipam-claim-refused`, `pool-missing`, `pool-exhausted`, `unsupported-field`,
 *   `superseded`; ApiFailure
 */
export async function claimedAddresses(
  request: AllocationRequest,
  context: AgentContext,
  signal: AbortSignal,
): Promise<Allocation | undefined> {
  const { config, pod } = request;
  if (config.allowPersistentIPs !== true) return undefined;
  const name = await claimOfInterface(request, context, signal);
  if (name === undefined) return undefined;
  const pools = poolsOf(request, context);
  for (let round = 0; round < ROUNDS; round++) {
    const read = await readClaim(name, request, context, signal);
    const { claim } = read;
    if (claim.network !== config.name) return refuseNetwork(config.name, read, context, signal);
    if (claim.ips.length > 0) {
      const addresses = await Promise.all(claim.ips.map((ip) => checked(ip, read, pools, context, signal)));
      await noteUser(read, pod?.name, context, signal);
      const sources = pools.map(({ pool }) => pool);
      return { ...allocationEntry(request, context.state, addresses, sources), claim: claim.name };
    }
    const waitMs = WAITS_MS[round];
    if (waitMs === undefined) await allocate(read, pod?.name, pools, context, signal);
    else await context.clock.sleep(waitMs, signal);
  }
  throw new Failure({
    code: "busy",
    what: `claim ${name} was changed at each attempt to publish its addresses`,
    where: `IPAMClaim ${pod?.namespace}/${name}`,
    fix: "it is tried again",
  });
}

function poolsOf({ config }: AllocationRequest, { state }: AgentContext): readonly ClaimPool[] {
  return (config.ipam.pools ?? []).map((name) => {
    const pool = state.pools.get(name);
    if (pool === undefined) throw missing("AddressPool", name);
    const space = state.spaces.get(pool.space);
    if (space === undefined) throw missing("AddressSpace", pool.space);
    return { pool, space };
  });
}

/** Takes an address of each pool and publishes them; a conflict means that the claim is to be read again. */
async function allocate(
  read: ReadClaim,
  pod: string | undefined,
  pools: readonly ClaimPool[],
  context: AgentContext,
  signal: AbortSignal,
): Promise<void> {
  const { clock, logger } = context;
  const { claim, object } = read;
  const ips: ClaimAddress[] = [];
  for (const { pool, space } of pools) {
    const { address } = await allocateFor(claim, { pool, space }, undefined, context, signal).catch(
      (error: unknown) => failed(error, read, context, signal),
    );
    ips.push({ ...address, length: subnetOf(pool, address)?.prefix.length ?? 0 });
  }
  const texts = ips.map(formatPrefix);
  const condition = claimCondition("SuccessfulAllocation", `allocated ${texts.join(", ")}`, clock.now());
  const written = await writeClaimStatus(
    context.api,
    object,
    { ips, ownerPod: pod, condition },
    signal,
  ).catch(unlessOvertaken);
  if (written !== undefined)
    logger.info(
      { claim: `${claim.namespace}/${claim.name}`, addresses: texts },
      "addresses allocated for a claim",
    );
}

/** A published address, which is allocated for the claim; where it is not, because the claim was restored, it is now. */
async function checked(
  ip: ClaimAddress,
  read: ReadClaim,
  pools: readonly ClaimPool[],
  context: AgentContext,
  signal: AbortSignal,
): Promise<Allocation["addresses"][number]> {
  const { claim } = read;
  const text = formatAddress(ip);
  const found = pools.find(({ pool }) => subnetOf(pool, ip) !== undefined);
  if (found === undefined) {
    const what = `no pool of the network has a subnet with the claim's address ${text}`;
    const error = refused(
      what,
      whereOf(claim),
      "name the pool in the network, or delete the claim while the VM is stopped",
    );
    return failed(error, read, context, signal);
  }
  const { pool, space } = found;
  const object = await context.api
    .get(ADDRESS_ALLOCATIONS, allocationName(pool.space, ip), signal)
    .catch(unlessMissing);
  const isOurs = object !== undefined && parseAddressAllocation(object).owner?.uid === claim.uid;
  if (!isOurs)
    await allocateFor(claim, found, ip, context, signal).catch((error: unknown) =>
      failed(error, read, context, signal),
    );
  const gateway = subnetOf(pool, ip)?.gateway;
  return present({
    block: blockName(space.name, blockOf(ip, space.blockPrefixes)),
    address: formatPrefix(ip),
    gateway: gateway && formatAddress(gateway),
    pool: pool.name,
  });
}

function allocateFor(
  { namespace, name, uid, network }: IpamClaim,
  { pool, space }: ClaimPool,
  requested: Address | undefined,
  { api, random }: AgentContext,
  signal: AbortSignal,
) {
  const owner = { kind: "IPAMClaim", namespace, name, uid, network };
  // An agent has no right to delete what claims have: the controller frees what was allocated for one and not published.
  const withoutDelete = {
    get: api.get.bind(api),
    list: api.list.bind(api),
    create: api.create.bind(api),
    update: api.update.bind(api),
    delete: async () => undefined,
  };
  const key = claimKey(pool, owner);
  return allocateShared({ api: withoutDelete, pool, space, owner, key, requested, random, signal });
}

/** What a claim's condition says of a failure. */
const REASONS: Partial<Record<FailureCode, ClaimCondition["reason"]>> = {
  "pool-exhausted": "SubnetExhausted",
  "address-refused": "IPAddressConflict",
  "ipam-claim-refused": "IPAddressConflict",
};

/** Says in the claim's condition why it gets no addresses. @throws the error itself */
async function failed(
  error: unknown,
  read: ReadClaim,
  context: AgentContext,
  signal: AbortSignal,
): Promise<never> {
  const { code, what } = toFailure(error);
  const reason = REASONS[code];
  if (reason !== undefined)
    await say(claimCondition(reason, what, context.clock.now()), read, context, signal);
  throw error;
}

/** Refuses an interface of another network than the claim's, and says so in the claim too. */
async function refuseNetwork(
  network: string,
  read: ReadClaim,
  context: AgentContext,
  signal: AbortSignal,
): Promise<never> {
  const { claim } = read;
  const what = `the claim is for network ${JSON.stringify(claim.network)}, and the interface is of network ${network}`;
  await say(networkCondition(what, context.clock.now()), read, context, signal);
  throw refused(
    what,
    whereOf(claim),
    "restart the VM with the network that it had, or delete the claim while the VM is stopped. The network of a running VM cannot be changed to one with other addresses",
  );
}

/** Writes a condition into a claim where it has another reason until then; a write that fails changes nothing for the pod. */
async function say(
  condition: ClaimCondition,
  { object, claim }: ReadClaim,
  { api, logger }: AgentContext,
  signal: AbortSignal,
): Promise<void> {
  const before = claim.conditions.find(({ type }) => type === condition.type);
  if (before?.["reason"] === condition.reason) return;
  await writeClaimStatus(api, object, { ips: [], condition }, signal).catch((error: unknown) =>
    logger.debug({ reason: describeThrown(error) }, "a claim's condition cannot be written"),
  );
}

/** The pod that uses the claim, for people: a write that fails changes nothing for the pod. */
async function noteUser(
  { object, claim }: ReadClaim,
  pod: string | undefined,
  { api, clock, logger }: AgentContext,
  signal: AbortSignal,
): Promise<void> {
  const wasRefused = claim.conditions.some(
    (one) => one.type === "NetworkChanged" && one["status"] === "True",
  );
  if (!wasRefused && (pod === undefined || claim.ownerPod === pod)) return;
  const condition = wasRefused ? networkCondition(undefined, clock.now()) : undefined;
  await writeClaimStatus(api, object, { ips: [], ownerPod: pod, condition }, signal).catch(
    (error: unknown) => {
      signal.throwIfAborted();
      logger.debug({ reason: describeThrown(error) }, "the pod that uses a claim cannot be written into it");
    },
  );
}

/** Pools may have become smaller since: a subnet has its addresses also where it does not hand them out any more. */
function subnetOf({ subnets }: AddressPool, address: Address): Subnet | undefined {
  return subnets.find(({ prefix }) => isInPrefix(prefix, address));
}

function whereOf({ namespace, name }: IpamClaim): string {
  return `IPAMClaim ${namespace}/${name}`;
}

/** For a claim that was changed or deleted meanwhile. @throws every other failure */
function unlessOvertaken(error: unknown): undefined {
  if (error instanceof ApiFailure && ["conflict", "not-found"].includes(error.problem)) return undefined;
  throw error;
}
