import type { AddressPool } from "../address-objects/address-pool.ts";
import { formatAddress, formatPrefix } from "../addresses/address.ts";
import { REQUEST_ARGS, type RequestInPod } from "../claims/resources.ts";
import { parseSandboxInterface, type RawRequest } from "../cni/request.ts";
import type { LogFields } from "../logging/fields.ts";
import { parseCniArgs } from "../names/cni-args.ts";
import { present } from "../names/present.ts";
import type { SandboxInterface } from "../records/port-record.ts";
import type { LockRequest } from "../sync/keyed-mutex.ts";
import { type Allocation, entryKey } from "./journal-entries.ts";
import { type NetworkConfig, parseNetworkConfig } from "./network-config.ts";
import type { NodeState } from "./node-state.ts";

/** What the executable sends: the CNI_ environment and stdin, nothing checked yet. */
export type AgentRequest = Omit<RawRequest, "delegate">;

/** ADD or CHECK of one interface. */
export interface AllocationRequest extends SandboxInterface {
  readonly raw: AgentRequest;
  readonly config: NetworkConfig;
  /** {@link entryKey.allocation} */
  readonly key: string;
  readonly netns: string;
  /** Undefined where the runtime named no pod, or not its UID. */
  readonly pod: Allocation["pod"];
  /** Of the ResourceClaim that the addresses are for; undefined for an interface of a network. */
  readonly resourceClaim: RequestInPod | undefined;
}

/** Checks the environment and stdin of ADD and CHECK. @throws Failure `invalid-request`, and as parseNetworkConfig */
export function parseAllocationRequest(raw: AgentRequest): AllocationRequest {
  const { env, stdin } = raw;
  const target = parseSandboxInterface(env, ["CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS"]);
  const args = parseCniArgs(env["CNI_ARGS"] ?? "");
  const { K8S_POD_NAMESPACE: namespace, K8S_POD_NAME: name, K8S_POD_UID: uid } = args;
  const isKnown = namespace !== undefined && name !== undefined && uid !== undefined && uid !== "";
  const config = parseNetworkConfig(stdin);
  const { [REQUEST_ARGS.claim]: claim, [REQUEST_ARGS.request]: requested } = args;
  return {
    ...{ ...target, raw, config },
    key: entryKey.allocation({ ...target, network: config.name }),
    netns: env["CNI_NETNS"] ?? "",
    pod: isKnown ? { namespace, name, uid } : undefined,
    resourceClaim: claim && requested ? { claim, request: requested } : undefined,
  };
}

/** What the journal keeps of an interface that gets addresses, with routes and DNS of the network and of the pools. */
export function allocationEntry(
  { config, containerId, interfaceName, netns, pod, raw }: AllocationRequest,
  { bootId }: Pick<NodeState, "bootId">,
  addresses: Allocation["addresses"],
  sources: readonly Pick<AddressPool, "routes" | "dns">[],
): Allocation {
  const { routes = [], dns } = config.ipam;
  const ofPools = sources.flatMap((source) => source.routes);
  return present({
    kind: "allocation" as const,
    ...{ network: config.name, containerId, interfaceName, netns, pod },
    ...{ startedAtMs: raw.startedAtMs, bootId, addresses },
    routes: [...routes, ...ofPools].map(({ dst, gw, ...rest }) =>
      present({ ...rest, dst: formatPrefix(dst), gw: gw && formatAddress(gw) }),
    ),
    dns: dns ?? sources.find((source) => source.dns !== undefined)?.dns,
  });
}

/** The lock of an interface's allocation. */
export function allocationLock(key: string, what: string, signal?: AbortSignal): LockRequest {
  return { key, what, where: key.replace("allocation/", "allocation "), ...(signal && { signal }) };
}

/** An interface of a pod, whichever sandbox has it. */
export function podInterface(
  { uid }: { readonly uid: string },
  network: string,
  interfaceName: string,
): string {
  return `${uid}/${network}/${interfaceName}`;
}

/** Fields of every log line about one allocation. */
export function allocationFields(allocation: Allocation): LogFields {
  const { network, containerId: container, interfaceName, pod } = allocation;
  const ofPod = pod === undefined ? undefined : `${pod.namespace}/${pod.name}`;
  return { pod: ofPod, container, interface: interfaceName, network };
}
