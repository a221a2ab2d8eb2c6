import { parseAddressAllocation } from "../address-objects/address-allocation.ts";
import { parseAddressBlock } from "../address-objects/address-block.ts";
import {
  ADDRESS_ALLOCATIONS,
  ADDRESS_BLOCKS,
  allocationName,
  blockName,
} from "../address-objects/resources.ts";
import { type Address, formatAddress, isInPrefix, parseAddress } from "../addresses/address.ts";
import { blockOf } from "../addresses/grid.ts";
import { describeThrown } from "../failure/failure.ts";
import type { Logger } from "../logging/logger.ts";
import { present } from "../names/present.ts";
import { isLauncherOf } from "../names/virt-launcher.ts";
import { type HttpServer, type Page, serveHttp, text } from "../observe/http-server.ts";
import type { AddressHolder, PodAddresses, WhoAnswer } from "../status/addresses-shape.ts";
import { SharedRead } from "../sync/shared-read.ts";
import {
  type AddressesSource,
  describeAddresses,
  describeInterface,
  describeInterfaces,
  restsUntil,
} from "./describe-addresses.ts";
import { unlessMissing } from "./own-blocks.ts";

/** Time for the API server to answer; what only it knows is reported as unknown then. */
const READ_MS = 3_000;
/** Requests for the node within this time share one read, which lists the node's pods and all pools. */
const MAX_AGE_MS = 5_000;
/** Spaces in which one address is looked for. */
const MAX_SPACES = 32;

/**
 * Serves what the agent knows as JSON over HTTP on a unix socket that only root can connect to, for vhostuserctl and the
 * status page. It changes nothing.
 * @throws Failure `invalid-config` when the socket cannot be made
 */
export function serveAgentStatus(
  source: AddressesSource & { readonly socketPath: string; readonly logger: Logger },
): Promise<HttpServer> {
  const { socketPath, logger, clock } = source;
  const node = new SharedRead({
    read: async () => json(await describeAddresses(source, AbortSignal.timeout(READ_MS))),
    ...{ maxAgeMs: MAX_AGE_MS, clock },
  });
  const who = async (query: URLSearchParams) => {
    const address = parseAddress(query.get("address") ?? "");
    if (address === undefined) return text(400, "address must be an IPv4 or IPv6 address\n");
    const signal = AbortSignal.timeout(READ_MS);
    return json(await findHolders(address, query.get("space") ?? undefined, source, signal));
  };
  return serveHttp({
    ...{ socketPath, socketOption: "--socket", logger },
    pages: new Map<string, (query: URLSearchParams) => Promise<Page>>([
      ["/v1/addresses", () => node.get()],
      ["/v1/who", who],
      ["/v1/pod", async (query) => json(addressesOfPod(query, source))],
    ]),
  });
}

function json(value: object): Page {
  return { status: 200, contentType: "application/json", body: `${JSON.stringify(value)}\n` };
}

/** What a pod's interfaces hold; without a pod of that name, those of the pods of a VM of that name. */
function addressesOfPod(query: URLSearchParams, source: AddressesSource): PodAddresses {
  const { node, agent, clock } = source;
  const [asked, namespace] = [query.get("pod") ?? "", query.get("namespace") ?? undefined];
  const all = [...agent.state.allocations.values()].filter(
    ({ pod }) => pod !== undefined && (namespace === undefined || pod.namespace === namespace),
  );
  const own = all.filter(({ pod }) => pod?.name === asked);
  const found = own.length > 0 ? own : all.filter(({ pod }) => isLauncherOf(pod?.name ?? "", asked));
  return { node, at: clock.now(), ...describeInterfaces(found, source) };
}

/** Who has an address, in one space or in all that the agent knows. */
async function findHolders(
  address: Address,
  space: string | undefined,
  source: AddressesSource,
  signal: AbortSignal,
): Promise<WhoAnswer> {
  const { node, agent, clock } = source;
  const { spaces, blocks } = agent.state;
  const known = new Set([...spaces.keys(), ...[...blocks.values()].map(({ entry }) => entry.space)]);
  const asked = [...known].filter((name) => space === undefined || name === space);
  const holders = await Promise.all(
    asked
      .slice(0, MAX_SPACES)
      .map(
        async (name) =>
          holderOnNode(address, name, source) ?? (await holderElsewhere(address, name, source, signal)),
      ),
  );
  const leftOut = Math.max(0, asked.length - MAX_SPACES);
  return { node, at: clock.now(), address: formatAddress(address), holders, leftOut };
}

/** From memory; undefined for an address of which the API server knows more. */
function holderOnNode(address: Address, space: string, source: AddressesSource): AddressHolder | undefined {
  const { state } = source.agent;
  const claimed = claimedHere(address, space, source);
  if (claimed !== undefined) return claimed;
  const block = [...state.blocks.values()].find(
    ({ entry, prefix }) => entry.space === space && isInPrefix(prefix, address),
  );
  if (block === undefined) return undefined;
  const { name, entry } = block;
  const allocation = state.allocations.get(block.holderOf(address.value) ?? "");
  if (allocation !== undefined) {
    const isLost = entry.state === "lost";
    return { state: "held", space, block: name, interface: describeInterface(allocation, source), isLost };
  }
  if (entry.state !== "bound") return undefined;
  return present({
    state: "free" as const,
    space,
    block: name,
    untilAt: restsUntil(block, address.value, source),
  });
}

/** An address of a claim that a pod of this node uses; pods of other nodes may use it too. */
function claimedHere(address: Address, space: string, source: AddressesSource): AddressHolder | undefined {
  const text = formatAddress(address);
  for (const allocation of source.agent.state.allocations.values()) {
    if (allocation.claim === undefined) continue;
    const found = allocation.addresses.find((one) => one.address.split("/")[0] === text);
    // Names of spaces have no dots.
    if (found?.block.split(".")[0] !== space) continue;
    const used = describeInterface(allocation, source);
    return { state: "held", space, block: found.block, interface: used, isLost: false };
  }
  return undefined;
}

/** By at most two reads of single objects, whose names are known from the address. */
async function holderElsewhere(
  address: Address,
  space: string,
  { api, agent }: AddressesSource,
  signal: AbortSignal,
): Promise<AddressHolder> {
  const { spaces, pools } = agent.state;
  const prefixes = spaces.get(space)?.blockPrefixes;
  if (prefixes === undefined) return { state: "unknown", space, reason: `there is no AddressSpace ${space}` };
  const block = blockName(space, blockOf(address, prefixes));
  try {
    const found = await api.get(ADDRESS_BLOCKS, block, signal).catch(unlessMissing);
    if (found === undefined) {
      const ofAddress = [...pools.values()].filter(
        (pool) => pool.space === space && pool.family === address.family && pool.usable.has(address.value),
      );
      return { state: "none", space, pools: ofAddress.map(({ name }) => name) };
    }
    const { owner, state } = parseAddressBlock(found);
    if (owner.kind === "Node")
      return { state: "node", space, block, node: owner.name, isQuarantined: state === "Quarantined" };
    if (owner.kind === "Foreign") return { state: "foreign", space, block };
    const name = allocationName(space, address);
    const object = await api.get(ADDRESS_ALLOCATIONS, name, signal).catch(unlessMissing);
    if (object === undefined) return { state: "shared", space, block };
    const { node, owner: holder, key } = parseAddressAllocation(object);
    return present({ state: "allocation" as const, space, allocation: name, node, owner: holder, key });
  } catch (error) {
    return { state: "unknown", space, reason: describeThrown(error) };
  }
}
