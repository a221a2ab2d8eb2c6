import type { AddressPool } from "../address-objects/address-pool.ts";
import { blockName } from "../address-objects/resources.ts";
import type { Address } from "../addresses/address.ts";
import { blockOf } from "../addresses/grid.ts";
import { Failure } from "../failure/failure.ts";
import { parseCniArgs } from "../names/cni-args.ts";
import { parseUnicastMac } from "../names/mac-address.ts";
import { present } from "../names/present.ts";
import { allocateShared } from "../pool-addresses/allocate-shared.ts";
import { type AddressSource, spaceOf } from "./address-source.ts";
import type { AgentContext } from "./agent-context.ts";
import { type Held, tryAgain } from "./held-address.ts";
import type { AllocationRequest } from "./request.ts";

/**
 * Holds an address of a pool's shared blocks by its AddressAllocation. What an ADD that fails has allocated is released by
 * its entry in the journal, which was made before ({@link NodeState.unusedShared}).
 * @throws Failure `pool-exhausted`, `pool-missing`, `address-refused`, `invalid-request`, `invalid-network-config`,
 *   `kube-api-unavailable`
 */
export async function holdShared(
  source: AddressSource,
  pool: AddressPool,
  requested: Address | undefined,
  request: AllocationRequest,
  { api, node, state, random }: AgentContext,
  signal: AbortSignal,
): Promise<Held> {
  const { pod, config, interfaceName, containerId } = request;
  if (pod === undefined)
    throw new Failure({
      code: "invalid-request",
      what: `pool ${pool.name} allocates each address to a pod, and the runtime named no pod with its UID`,
      where: "CNI_ARGS",
      fix: "use a runtime that passes K8S_POD_NAMESPACE, K8S_POD_NAME and K8S_POD_UID, or a pool of mode NodeBlocks",
    });
  const space = spaceOf(pool.space, state);
  const ofInterface = { network: config.name, interface: interfaceName, container: containerId };
  const owner = { kind: "Pod", ...pod, ...ofInterface };
  const key = stickyKeyOf(pool, request);
  const {
    address,
    key: kept,
    name,
  } = await allocateShared({
    ...{ api, pool, space, owner, node, key, requested, random, signal },
  }).catch((error: unknown) => {
    throw tryAgain(`no address of pool ${pool.name} can be allocated`, error);
  });
  const prefix = blockOf(address, space.blockPrefixes);
  const block = { name: blockName(space.name, prefix), prefix };
  return { source, value: address.value, block, shared: present({ name, key: kept }) };
}

/**
 * What the pool keeps the interface's address for: in its namespace the MAC that it is given, or the key that it names.
 * @throws Failure `invalid-network-config` for a key or MAC of another form
 */
function stickyKeyOf({ sticky }: AddressPool, { config, raw, pod }: AllocationRequest): string | undefined {
  if (sticky === undefined || pod === undefined) return undefined;
  const { mac: ofArgs, addressKey } = config.args?.cni ?? {};
  if (sticky === "Key") return addressKey ? `${pod.namespace}/${addressKey}` : undefined;
  const asked = [config.runtimeConfig?.mac, parseCniArgs(raw.env["CNI_ARGS"] ?? "")["MAC"], ofArgs];
  const text = asked.find((one) => one !== undefined && one !== null && one !== "");
  if (text === undefined || text === null) return undefined;
  const mac = parseUnicastMac(text);
  if (mac !== undefined) return `${pod.namespace}/${mac}`;
  throw new Failure({
    code: "invalid-network-config",
    what: `MAC address ${JSON.stringify(text)} is not a unicast address of six bytes`,
    where: "runtimeConfig.mac, MAC of CNI_ARGS, or args.cni.mac",
    fix: "write it as 02:00:00:00:00:01",
  });
}
