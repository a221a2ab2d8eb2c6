import { blockName } from "../address-objects/resources.ts";
import { type Address, formatAddress, parseAddress } from "../addresses/address.ts";
import { blockOf } from "../addresses/grid.ts";
import { Failure } from "../failure/failure.ts";
import { parseCniArgs } from "../names/cni-args.ts";
import { type AddressSource, blockPrefixesOf } from "./address-source.ts";
import type { AgentContext } from "./agent-context.ts";
import type { BlockSupply } from "./block-supply.ts";
import type { HeldBlock } from "./held-block.ts";
import type { AllocationRequest } from "./request.ts";

/** What the caller asks for: by the capability `ips`, by `args.cni.ips`, or by `IP` of CNI_ARGS. */
export function requestedTexts({ config, raw }: AllocationRequest): readonly string[] {
  const { IP = "" } = parseCniArgs(raw.env["CNI_ARGS"] ?? "");
  const texts = [...IP.split(","), ...(config.runtimeConfig?.ips ?? []), ...(config.args?.cni?.ips ?? [])];
  return [...new Set(texts.map((one) => one.trim()).filter((one) => one !== ""))];
}

/**
 * The address that the caller asks for of each source, by {@link requestedTexts}.
 * @throws Failure `address-refused` for one that no source has, or one too many
 */
export function requestedAddresses(
  request: AllocationRequest,
  sources: readonly AddressSource[],
): ReadonlyMap<AddressSource, Address> {
  const requested = new Map<AddressSource, Address>();
  for (const text of requestedTexts(request)) {
    const [base = "", length] = text.split("/");
    const address = parseAddress(base);
    if (address === undefined) throw refused(text, "it is not an IP address");
    const source = sources.find(
      ({ family, usable }) => family === address.family && usable.has(address.value),
    );
    if (source === undefined) throw refused(text, "the network's pools or ranges do not hand it out");
    const subnet = source.subnets.find(({ usable }) => usable.has(address.value));
    if (length !== undefined && Number(length) !== subnet?.prefix.length)
      throw refused(text, `the prefix length of its subnet is ${subnet?.prefix.length}`);
    const other = requested.get(source);
    if (other !== undefined && other.value !== address.value)
      throw refused(text, `${formatAddress(other)} of the same pool was requested too`);
    requested.set(source, address);
  }
  return requested;
}

/**
 * Holds an address that was requested, of a block that this node has, or else takes.
 * @throws Failure `address-refused` where another node has the block, or the address is in use or rests; ApiFailure
 */
export async function holdRequested(
  source: AddressSource,
  address: Address,
  key: string,
  supply: Pick<BlockSupply, "takeExactly">,
  { state, clock }: AgentContext,
  signal: AbortSignal,
): Promise<HeldBlock> {
  const text = formatAddress(address);
  const prefix = blockOf(address, blockPrefixesOf(source, state));
  const name = blockName(source.space, prefix);
  if (!state.blocks.has(name)) await supply.takeExactly(source, prefix, signal);
  const block = state.blocks.get(name);
  if (!block?.isUsable)
    throw refused(text, `its block ${name} is not this node's; only pods on the node that has it can get it`);
  const holder = block.holderOf(address.value);
  if (holder !== undefined) {
    const { pod } = state.allocations.get(holder) ?? {};
    throw refused(
      text,
      `${pod === undefined ? "another interface" : `pod ${pod.namespace}/${pod.name}`} has it`,
    );
  }
  const restMs = block.restMs(address.value, clock.monotonic(), source.cooldownSeconds * 1000);
  if (restMs > 0) throw refused(text, `it was released, and rests for another ${Math.ceil(restMs / 1000)} s`);
  block.hold(address.value, key);
  return block;
}

function refused(address: string, why: string): Failure {
  return new Failure({
    code: "address-refused",
    what: `the requested address ${address} cannot be given: ${why}`,
    where: "ips of the pod's network annotation, args.cni.ips, or IP of CNI_ARGS",
    fix: "request another one, or none; it is tried again",
  });
}
